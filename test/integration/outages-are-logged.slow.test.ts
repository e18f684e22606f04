import { rename } from 'node:fs/promises';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { closedUrl, type Script, silent } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
import type { TestProxy } from '../support/service.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();

const beginnings = (proxy: TestProxy) => proxy.logLines('key source unavailable');
const ends = (proxy: TestProxy) => proxy.logLines('key source available again');

/** Requests balances of logins that are not cached. */
async function queryUncached(proxy: TestProxy, count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    await proxy.post(`/sandbox/gw/api/v2/get-balance/manager/uncached-${index}`, '');
  }
}

/** One error line with the cause, however many requests fail. */
async function expectBeginning(proxy: TestProxy, cause: RegExp): Promise<void> {
  await queryUncached(proxy, 5);
  await until(() => beginnings(proxy).length > 0);
  await queryUncached(proxy, 5);
  expect(beginnings(proxy)).toEqual([
    expect.objectContaining({ level: 'error', cause: expect.stringMatching(cause), seconds: 0 }),
  ]);
  expect(await proxy.counted('key_source_up')).toBe(0);
}

async function expectEnd(proxy: TestProxy): Promise<void> {
  await until(() => ends(proxy).length > 0);
  const [end, ...more] = ends(proxy);
  expect(more).toEqual([]);
  expect(end).toMatchObject({ level: 'info' });
  expect(end?.['seconds']).toBeLessThan(20);
  expect(await proxy.counted('key_source_up')).toBe(1);
}

describe('a Vault outage', () => {
  let setup: VaultTestEnvironment;
  let proxy: TestProxy;

  beforeEach(async () => {
    setup = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
    await setup.admin.put('gateway/sandbox/acme', { control_key: 'first' });
    const keys = vaultKeys(setup.vault.address, { timeout: '500ms' }, { cache: { ttl: '100ms' } });
    proxy = await starts.proxy({ config: { keys } });
    await proxy.balance();
  });

  it('is logged with its cause, with a line for another cause, and once at its end', async () => {
    setup.vault.fail({ kind: 'status', status: 429 });
    await expectBeginning(proxy, /rate.*429/);
    setup.vault.fail({ kind: 'black-hole' });
    const cause = 'Vault did not respond in time';
    await until(async () => {
      await queryUncached(proxy, 1);
      return beginnings(proxy).length > 1;
    });
    expect(beginnings(proxy)[1]).toMatchObject({ cause });
    expect((await proxy.instanceStatus()).keySource.problem).toBe(cause);
    setup.vault.heal();
    await expectEnd(proxy);
  });

  it('is not logged if some logins are denied, which is another state', async () => {
    setup.vault.fail({ kind: 'status', status: 403 }, /uncached/);
    await queryUncached(proxy, 3);
    expect(await proxy.counted('key_source_up')).toBe(1);
    expect(await proxy.counted('key_problems_total', { environment: 'sandbox' })).toBe(3);
    expect(beginnings(proxy)).toEqual([]);
    const logged = proxy.logLines().filter(({ msg }) => String(msg).startsWith('key read failed'));
    expect(logged.map(({ msg, login }) => `${String(login)}: ${String(msg)}`)).toEqual([
      'uncached-0: key read failed: Vault denied permission (HTTP 403)',
      'uncached-1: key read failed: Vault denied permission (HTTP 403)',
      'uncached-2: key read failed: Vault denied permission (HTTP 403)',
    ]);
  });
});

it('an outage of the directory is logged with its cause, and once at its end', async () => {
  const proxy = await starts.proxy();
  await proxy.balance();
  await rename(proxy.keysFolder, `${proxy.keysFolder}-away`);
  await expectBeginning(proxy, /cannot read the directory .* \(ENOENT\)/);
  await rename(`${proxy.keysFolder}-away`, proxy.keysFolder);
  await expectEnd(proxy);
});

describe('an unreachable gateway is explained in log, metric and response', () => {
  const onTls = async (script: Script) => (await starts.gateway([script])).url.replace('http:', 'https:');

  async function send(gateway: string, sandbox: object = {}) {
    const proxy = await starts.proxy({ gateway, sandbox, random: () => 0 });
    const { body } = await proxy.transfer();
    const [line] = await proxy.requestLines();
    return { proxy, detail: String(JSON.parse(body).detail), line };
  }

  async function expectCause(unreachable: Awaited<ReturnType<typeof send>>, cause: string, detail: RegExp) {
    expect(unreachable.line).toMatchObject({ reason: 'gateway-unreachable', unreachable: cause });
    expect(unreachable.detail).toMatch(detail);
    const labels = { environment: 'sandbox', operation: 'transfer', cause };
    expect(await unreachable.proxy.counted('gateway_connection_failures_total', labels)).toBe(3);
    expect(await unreachable.proxy.counted('gateway_connection_failures_total')).toBe(3);
  }

  it.each<[string, RegExp, () => Promise<Parameters<typeof send>>]>([
    ['dns', /DNS/, async () => ['https://gateway.invalid']],
    ['refused', /refused/, async () => [closedUrl]],
    [
      'timeout',
      /timeout/,
      async () => [await onTls(silent), { timeouts: { connect: '200ms', request: '5s' } }],
    ],
    ['tls', /TLS/, async () => [await onTls(({ socket, reset }) => void socket.once('data', reset))]],
  ])('for the cause %s', async (cause, detail, gateway) => {
    await expectCause(await send(...(await gateway())), cause, detail);
  });
});
