import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { post } from '../../test/support/forwarding.ts';
import { tokens } from './cluster.ts';

/** One sort of request: how often it comes, as a part of all, and what is posted. */
interface Sort {
  readonly weight: number;
  readonly caller: keyof typeof tokens | 'nobody';
  readonly path: string;
  readonly form: () => string;
}

const acmeBalance = '/v2/get-balance/manager/acme';
const status = '/v4/status/1234';
const transfer = '/v4/transfer/1235';
const statusOf = (login: string, order: string) => () => `login=${login}&client_orderid=${order}`;
const payment = () => `client_orderid=${randomUUID()}&amount=12.50&currency=EUR`;

const sorts: readonly Sort[] = [
  { weight: 30, caller: 'billing', path: acmeBalance, form: () => '' },
  { weight: 8, caller: 'billing', path: '/v2/get-balance/manager/beta', form: () => '' },
  { weight: 24, caller: 'payouts', path: transfer, form: payment },
  { weight: 40, caller: 'payouts', path: status, form: statusOf('acme', 'invoice-1') },
  { weight: 24, caller: 'billing', path: status, form: statusOf('beta', 'invoice-1') },
  { weight: 6, caller: 'billing', path: status, form: statusOf('acme', 'invoice-2') },
  { weight: 2, caller: 'billing', path: status, form: statusOf('acme', 'invoice-4') },
  { weight: 1, caller: 'billing', path: status, form: statusOf('acme', 'invoice-unknown') },
  { weight: 5, caller: 'trial', path: status, form: statusOf('acme', 'invoice-1') },
  { weight: 1, caller: 'billing', path: status, form: () => 'login=acme' },
  { weight: 0.7, caller: 'billing', path: status, form: statusOf('gamma', 'invoice-1') },
  { weight: 0.5, caller: 'nobody', path: status, form: statusOf('acme', 'invoice-1') },
];
const allWeights = sorts.reduce((sum, { weight }) => sum + weight, 0);

/** A connection that the gateway cuts before it has answered: the outcome of the transfer stays unknown. */
export const cutTransfer = (url: string) =>
  send(url, {
    weight: 0,
    caller: 'payouts',
    path: transfer,
    form: () => 'client_orderid=cut&amount=12.50&currency=EUR',
  });

/**
 * Sends requests at random moments until the signal comes, at a rate that rises and falls a little.
 *
 * @param rate requests a second, on average.
 */
export async function sendTraffic(url: string, rate: number, signal: AbortSignal): Promise<void> {
  const underWay = new Set<Promise<void>>();
  let next = performance.now();
  while (!signal.aborted) {
    for (; next <= performance.now(); next += pause(rate)) {
      const sent = send(url, pick()).finally(() => underWay.delete(sent));
      underWay.add(sent);
    }
    await wait(10);
  }
  await Promise.all(underWay);
}

/** Milliseconds to the next request. */
function pause(rate: number): number {
  const wave = 1 + 0.25 * Math.sin(performance.now() / 25_000) + 0.1 * Math.sin(performance.now() / 7000);
  return (-Math.log(1 - Math.random()) * 1000) / (rate * wave);
}

function pick(): Sort | undefined {
  let at = Math.random() * allWeights;
  return sorts.find(({ weight }) => (at -= weight) < 0);
}

async function send(url: string, sort: Sort | undefined): Promise<void> {
  if (sort === undefined) return;
  const token = sort.caller === 'nobody' ? 'token-of-nobody' : tokens[sort.caller];
  await post(`${url}${sort.path}`, sort.form(), { Authorization: `Bearer ${token}` });
}
