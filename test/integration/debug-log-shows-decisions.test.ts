import { expect, it } from '@jest/globals';
import { Secret } from '../../src/secret.ts';
import { harness } from '../support/harness.ts';
import { type ProxyOptions, type TestProxy, writeKeys } from '../support/service.ts';
import { until } from '../support/until.ts';

const starts = harness();

const accepting = (key: string) => ({ controlKeys: [new Secret(key)], publicKeys: [] });

async function start(options: Partial<ProxyOptions> = {}) {
  const clock = (): number => Date.now();
  const { url, simulator } = await starts.simulator({
    clock,
    keys: new Map([['acme', accepting('old key')]]),
  });
  const keys = { acme: { controlKey: 'old key' } };
  const proxy = await starts.proxy({ gateway: url, keys, logLevel: 'debug', random: () => 0, ...options });
  return { proxy, simulator };
}

/** Of each line: the same in all of them, or a duration. */
const left = ['level', 'time', 'requestId', 'ms', 'environment', 'clockSkewSeconds'];

/** The lines of one request as `message: fields`. */
async function decisions(proxy: TestProxy, id: unknown): Promise<string[]> {
  await proxy.requestLines();
  const lines = proxy.logLines().filter(({ requestId, level }) => requestId === id && level === 'debug');
  return lines.map(({ msg, ...fields }) => {
    const shown = Object.entries(fields).filter(([name]) => !left.includes(name));
    return [`${String(msg)}:`, ...shown.map(([name, value]) => `${name}=${String(value)}`)].join(' ');
  });
}

it('a request shows its route, its key and each attempt; at level info it has none of this', async () => {
  const { proxy } = await start();
  const { headers } = await proxy.balance();
  expect(await decisions(proxy, headers['x-request-id'])).toEqual([
    'caller authenticated: caller=local credential=anonymous',
    'authorization decided: caller=local decision=allowed',
    'request routed: caller=local operation=manager-balance readOnly=true login=acme',
    'key source read: source=directory',
    'key lookup: result=fetched',
    expect.stringMatching(
      /^key selected: operation=manager-balance login=acme keyKind=control_key keyVersion=\d+$/,
    ),
    'gateway responded: operation=manager-balance status=200',
  ]);
  const quiet = await start({ logLevel: 'info' });
  const response = await quiet.proxy.balance();
  expect(await decisions(quiet.proxy, response.headers['x-request-id'])).toEqual([]);
});

it('a rejected key shows which one was tried in its place', async () => {
  const { proxy, simulator } = await start();
  await proxy.balance();
  simulator.keys.set('acme', accepting('next key'));
  writeKeys(proxy.keysFolder, 'sandbox', 'acme', { controlKey: 'next key' });
  await until(async () => (await proxy.balance()) && proxy.logText().includes('current key changed'));
  const lines = await decisions(proxy, proxy.logLines('current key changed')[0]?.requestId);
  expect(lines.filter((line) => !/^(caller|authorization|request|key (source|lookup))/.test(line))).toEqual([
    expect.stringMatching(/^key selected: /),
    'gateway responded: operation=manager-balance status=403',
    'keys refreshed after a rejection: login=acme',
    expect.stringMatching(/^key selected: /),
    'gateway responded: operation=manager-balance status=200',
    expect.stringMatching(/^current key changed: login=acme keyKind=control_key from=\d+ to=\d+$/),
  ]);
});
