import { writeFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { expect } from '@jest/globals';
import { startEgressProxy, type TestEgressProxy } from '../support/egress-proxy.ts';
import { always, freePort, httpResponse } from '../support/faulty-gateway.ts';
import { paths, transferForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { type Hit, Load, type LoadRequest } from '../support/load.ts';
import type { CountersignProcess } from '../support/process.ts';
import { itWith } from '../support/requires.ts';
import { Ca } from '../support/stub-vault/certificates.ts';

const success = httpResponse('200 OK', 'status=approved', ['Content-Type: text/plain']);
const username = 'countersign';
const authorizationOf = (password: string): string =>
  `Proxy-Authorization: Basic ${Buffer.from(`${username}:${password}`).toString('base64')}\r\n`;

const starts = harness();
const good = ({ result }: Hit): boolean => result === '200 answered';

/** Fifty queries and fifty payments per second, each payment with an order ID that no other has. */
function startLoad({ url }: CountersignProcess): Load {
  let order = 0;
  return new Load((): LoadRequest[] => {
    order += 1;
    const form = transferForm.replace('invoice-7', `invoice-${order}`);
    return [
      { name: 'query', url: url + paths.balance, form: '' },
      { name: 'payment', url: url + paths.transfer, form },
    ];
  }, 20);
}

async function setUp() {
  const folder = starts.folder();
  const ca = new Ca(folder.path, 'ca');
  const gateway = await starts.gateway([always(success)], ca.issue('gateway'));
  const port = await freePort();
  let accepted: readonly string[] = ['first'];
  const open = async (): Promise<TestEgressProxy> => {
    const egress = starts.closing(await startEgressProxy(undefined, port));
    egress.behavior = (head) =>
      accepted.some((password) => head.includes(authorizationOf(password)))
        ? 'tunnel'
        : { responds: 'HTTP/1.1 407 Proxy Authentication Required\r\n\r\n' };
    return egress;
  };
  const egress = await open();
  const passwordFile = folder.file('password', 'first');
  const proxy = await starts.process({
    gateway: gateway.url,
    sandbox: { caFile: ca.file, egressProxy: { url: egress.url, username, passwordFile } },
  });
  const accept = (...passwords: string[]): void => {
    accepted = passwords;
  };
  return { gateway, egress, open, proxy, passwordFile, accept };
}

/** Orders that the gateway has seen more than once. */
const doubled = (bodies: readonly string[]): string[] => {
  const orders = bodies.flatMap((body) => /client_orderid=(invoice-\d+)/.exec(body)?.[1] ?? []);
  return orders.filter((one, index) => orders.indexOf(one) !== index);
};

itWith('openssl')(
  'an outage of the egress proxy at 100 requests/s: not sent meanwhile, and over when it is back',
  async () => {
    const { gateway, egress, open, proxy } = await setUp();
    const load = startLoad(proxy);
    await wait(3_000);
    const downAt = performance.now();
    egress.drop();
    await egress.close();
    await wait(3_000);
    await open();
    const upAt = performance.now();
    await wait(3_000);
    const { hits, rate } = await load.end();

    const before = hits.filter(({ sentAt, took }) => sentAt + took < downAt);
    const during = hits.filter(({ sentAt }) => sentAt > downAt && sentAt < upAt - 1_000);
    const after = hits.filter(({ sentAt }) => sentAt > upAt);
    const first = Math.min(...after.filter(good).map(({ sentAt, took }) => sentAt + took)) - upAt;
    const lastBad = Math.max(0, ...after.filter((hit) => !good(hit)).map(({ sentAt }) => sentAt - upAt));
    expect(rate).toBeGreaterThan(90);
    expect(before.filter((hit) => !good(hit))).toEqual([]);
    expect(new Set(during.map(({ result }) => result))).toEqual(new Set(['502 gateway-unreachable']));
    expect(first).toBeLessThan(2_000);
    expect(lastBad).toBeLessThan(2_000);
    expect(doubled(gateway.requests().map(({ body }) => body))).toEqual([]);
    const lines = await proxy.requestLines(hits.length);
    const unreachable = lines.filter(({ reason }) => reason === 'gateway-unreachable');
    expect(new Set(unreachable.map(({ outcome }) => outcome))).toEqual(new Set(['not-sent']));
    // A payment that was in flight when the tunnels broke is unknown.
    expect(lines.filter(({ outcome }) => outcome === 'unknown').length).toBeLessThan(20);
  },
  60_000,
);

itWith('openssl')(
  'a new password of the egress proxy at 100 requests/s: none fails while it accepts both',
  async () => {
    const { gateway, proxy, passwordFile, accept } = await setUp();
    const load = startLoad(proxy);
    await wait(2_000);
    accept('first', 'second');
    writeFileSync(passwordFile, 'second');
    await wait(2_000);
    accept('second');
    await wait(2_000);
    const { hits } = await load.end();
    expect(hits.filter((hit) => !good(hit))).toEqual([]);
    expect(doubled(gateway.requests().map(({ body }) => body))).toEqual([]);
  },
  60_000,
);
