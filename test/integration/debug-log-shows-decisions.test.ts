import { describe, expect, it } from '@jest/globals';
import { Secret } from '../../src/secret.ts';
import { closedUrl } from '../support/faulty-gateway.ts';
import type { HttpResponse } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { type ProxyOptions, type TestProxy, writeKeys } from '../support/service.ts';
import { until } from '../support/until.ts';

const starts = harness();

const accepting = (key: string) => ({ controlKeys: [new Secret(key)], publicKeys: [] });

async function startBoth(options: Partial<ProxyOptions> = {}) {
  const clock = (): number => Date.now();
  const known = new Map([['acme', accepting('old key')]]);
  const { url, simulator } = await starts.simulator({ clock, keys: known });
  const keys = { acme: { controlKey: 'old key' } };
  const proxy = await starts.proxy({ gateway: url, keys, logLevel: 'debug', random: () => 0, ...options });
  return { proxy, simulator };
}

const start = async (options?: Partial<ProxyOptions>): Promise<TestProxy> => (await startBoth(options)).proxy;

/** The lines of one request as `message: fields`, without what is the same in all of them or a duration. */
async function decisions(proxy: TestProxy, response: HttpResponse | string): Promise<string[]> {
  await proxy.requestLines();
  const id = typeof response === 'string' ? response : response.headers['x-request-id'];
  return proxy
    .logLines()
    .filter(({ requestId, level }) => requestId === id && level === 'debug')
    .map(({ msg, ...fields }) => [`${String(msg)}:`, ...textsOf(fields)].join(' '));
}

const left: ReadonlySet<string> = new Set([
  'level',
  'time',
  'requestId',
  'ms',
  'environment',
  'clockSkewSeconds',
]);
const textsOf = (fields: Readonly<Record<string, unknown>>): string[] =>
  Object.entries(fields).flatMap(([name, value]) => (left.has(name) ? [] : `${name}=${String(value)}`));

describe('at level debug', () => {
  it('a request shows its route, its key and why, and each attempt', async () => {
    const proxy = await start();
    expect(await decisions(proxy, await proxy.balance())).toEqual([
      'caller authenticated: caller=local credential=anonymous',
      'authorization decided: caller=local decision=allowed',
      'request routed: caller=local operation=manager-balance readOnly=true login=acme',
      'key source read: source=directory',
      'key lookup: result=fetched',
      expect.stringMatching(
        /^key selected: operation=manager-balance login=acme reason=only-key keyKind=control_key keyVersion=\d+$/,
      ),
      'gateway responded: operation=manager-balance status=200',
    ]);
  });

  it('a rejected key shows which one was tried in its place, and why', async () => {
    const { proxy, simulator } = await startBoth();
    await proxy.balance();
    simulator.keys.set('acme', accepting('next key'));
    writeKeys(proxy.keysFolder, 'sandbox', 'acme', { controlKey: 'next key' });
    await until(async () => (await proxy.balance()) && proxy.logText().includes('current key changed'));
    const response = proxy.logLines('current key changed')[0];
    const lines = await decisions(proxy, String(response?.requestId));
    const selected = lines.filter((line) => line.startsWith('key selected'));
    expect(selected).toEqual([
      expect.stringContaining('reason=only-key'),
      expect.stringContaining('reason=tried'),
    ]);
    const [older = 0, newest = 0] = selected.map((line) => Number(/keyVersion=(\d+)/.exec(line)?.[1]));
    expect(newest).toBeGreaterThan(older);
    expect(
      lines.filter((line) => !/^(caller|authorization|request|key (selected|source|lookup))/.test(line)),
    ).toEqual([
      'gateway responded: operation=manager-balance status=403',
      'keys refreshed after a rejection: login=acme',
      'gateway responded: operation=manager-balance status=200',
      expect.stringMatching(/^current key changed: login=acme keyKind=control_key from=\d+ to=\d+$/),
    ]);
    const next = (await decisions(proxy, await proxy.balance())).join('\n');
    expect(next).toContain('reason=last-accepted');
  });

  it('a request that cannot be sent shows its retries', async () => {
    const proxy = await start({ gateway: closedUrl });
    const lines = await decisions(proxy, await proxy.balance());
    const failure = [
      'gateway unreachable: operation=manager-balance cause=refused',
      'upstream request failed: operation=manager-balance reason=gateway-unreachable written=false stalePool=false',
    ];
    const retry = 'upstream request retried: operation=manager-balance delayMs=50';
    expect(lines.filter((line) => /^(gateway|upstream)/.test(line))).toEqual([
      ...failure,
      retry,
      ...failure,
      retry,
      ...failure,
    ]);
  });
});

it('at level info there is none of this', async () => {
  const proxy = await start({ logLevel: 'info' });
  await proxy.balance();
  await proxy.requestLines();
  expect(proxy.logLines().filter(({ level }) => level === 'debug')).toEqual([]);
});
