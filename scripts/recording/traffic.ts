import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { post } from '../../test/support/forwarding.ts';
import type { Client, RecordingCluster } from './cluster.ts';

type Target = Pick<RecordingCluster, 'urls' | 'tokenOf'>;

/** A kind of request: its relative frequency, and its form. */
interface RequestKind {
  readonly weight: number;
  readonly caller: Client;
  readonly path: string;
  readonly form: () => string;
}

const acmeBalance = '/v2/get-balance/manager/acme';
const status = '/v4/status/1234';
const statusOfBeta = '/v4/status/1236';
const transfer = '/v4/transfer/1235';
const statusOf = (login: string, order: string) => () => `login=${login}&client_orderid=${order}`;
const payment = () => `client_orderid=${randomUUID()}&amount=12.50&currency=EUR`;

const requestKinds: readonly RequestKind[] = [
  { weight: 30, caller: 'billing', path: acmeBalance, form: () => '' },
  { weight: 8, caller: 'billing', path: '/v2/get-balance/manager/beta', form: () => '' },
  { weight: 24, caller: 'payouts', path: transfer, form: payment },
  { weight: 40, caller: 'payouts', path: status, form: statusOf('acme', 'invoice-1') },
  { weight: 24, caller: 'billing', path: statusOfBeta, form: statusOf('beta', 'invoice-1') },
  { weight: 6, caller: 'billing', path: status, form: statusOf('acme', 'invoice-2') },
  { weight: 2, caller: 'billing', path: status, form: statusOf('acme', 'invoice-4') },
  { weight: 1, caller: 'billing', path: status, form: statusOf('acme', 'invoice-unknown') },
  { weight: 5, caller: 'trial', path: status, form: statusOf('acme', 'invoice-1') },
  { weight: 12, caller: 'shop', path: status, form: statusOf('acme', 'invoice-1') },
  { weight: 0.4, caller: 'expired', path: status, form: statusOf('acme', 'invoice-1') },
  { weight: 1, caller: 'billing', path: status, form: () => 'login=acme' },
  { weight: 0.7, caller: 'billing', path: status, form: statusOf('gamma', 'invoice-1') },
  { weight: 0.5, caller: 'unknown', path: status, form: statusOf('acme', 'invoice-1') },
];
const totalWeight = requestKinds.reduce((sum, { weight }) => sum + weight, 0);

/** A transfer whose connection the gateway resets before it responds: its outcome is unknown. */
export const cutTransfer = (target: Target) =>
  send(target, {
    weight: 0,
    caller: 'payouts',
    path: transfer,
    form: () => 'client_orderid=cut&amount=12.50&currency=EUR',
  });

/**
 * Sends requests at random intervals until the signal aborts, at a slightly varying rate.
 *
 * @param rate requests per second, on average
 */
export async function sendTraffic(target: Target, rate: number, signal: AbortSignal): Promise<void> {
  const inFlight = new Set<Promise<void>>();
  let next = performance.now();
  while (!signal.aborted) {
    for (; next <= performance.now(); next += pause(rate)) {
      const sent = send(target, pick()).finally(() => inFlight.delete(sent));
      inFlight.add(sent);
    }
    await wait(10);
  }
  await Promise.all(inFlight);
}

/** Milliseconds to the next request. */
function pause(rate: number): number {
  const wave = 1 + 0.25 * Math.sin(performance.now() / 25_000) + 0.1 * Math.sin(performance.now() / 7000);
  return (-Math.log(1 - Math.random()) * 1000) / (rate * wave);
}

function pick(): RequestKind | undefined {
  let at = Math.random() * totalWeight;
  return requestKinds.find(({ weight }) => (at -= weight) < 0);
}

async function send({ urls, tokenOf }: Target, kind: RequestKind | undefined): Promise<void> {
  if (kind === undefined) return;
  const token = await tokenOf(kind.caller);
  const url = urls[Math.floor(Math.random() * urls.length)];
  await post(`${url}${kind.path}`, kind.form(), { Authorization: `Bearer ${token}` });
}
