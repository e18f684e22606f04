import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { always, httpResponse, startFaultyGateway } from '../support/faulty-gateway.ts';
import {
  KeysTestEnvironment,
  newControlKey,
  oldControlKey,
  oldFingerprint,
  oldKey,
} from '../support/keys-test-environment.ts';
import { writeKeys } from '../support/service.ts';
import { vectorText } from '../support/vectors.ts';

const newKey = vectorText('keys/rsa-4096-pkcs8.pem');
/** test/vectors/README.md */
const newFingerprint = '06e3adeb32229c2b59c5a0025519a6846511cfecb7d0e381602bf0f7245328dc';
const short = (fingerprint: string) => fingerprint.slice(0, 16);

const setup = new KeysTestEnvironment();
const quick = ['--login', 'acme', '--interval', '0'];

beforeAll(() => setup.open());
afterAll(() => setup.close());
beforeEach(async () => {
  await setup.forget();
  await setup.put({ control_key: oldControlKey, private_key: oldKey });
});

function resultsIn(out: string): string[] {
  return out
    .split('\n')
    .slice(2)
    .map((line) =>
      line
        .trim()
        .replace(/ +\d+s +/, ' ')
        .replaceAll(/ +/g, ' '),
    );
}

describe('keys verify', () => {
  it('accepts the only version, and requests only a status and the balances', async () => {
    setup.accept([oldControlKey], [oldKey]);
    const { seen } = setup.gateway.simulator;
    const before = [seen.count(), seen.accepted({ operation: 'order-status', login: 'acme', keyIndex: 0 })];
    const { code, out } = await setup.run('verify', ...quick);
    expect(resultsIn(out)).toEqual([
      '1 control_key cfbe accepted (200)',
      `1 private_key ${short(oldFingerprint)} accepted (200)`,
    ]);
    expect(code).toBe(0);
    expect([seen.count(), seen.accepted({ operation: 'order-status', login: 'acme', keyIndex: 0 })]).toEqual(
      before.map((count, at) => (count ?? 0) + (at === 0 ? 2 : 1)),
    );
    expect(Math.max(...out.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(100);
  });

  it('reports that the gateway still has the previous version, and probes a key of two versions once', async () => {
    setup.accept([newControlKey], [oldKey]);
    await setup.put({ control_key: newControlKey, private_key: oldKey });
    await setup.put({ control_key: newControlKey, private_key: newKey });
    const before = setup.gateway.simulator.seen.count();
    const { code, out } = await setup.run('verify', ...quick);
    expect(resultsIn(out)).toEqual([
      '3 control_key 9b1d accepted (200)',
      `3 private_key ${short(newFingerprint)} rejected (403)`,
      '2 control_key 9b1d accepted (200)',
      `2 private_key ${short(oldFingerprint)} accepted (200)`,
      '1 control_key cfbe rejected (403): wrong key, or balances are not enabled',
      `1 private_key ${short(oldFingerprint)} accepted (200)`,
    ]);
    expect(code).toBe(1);
    expect(setup.gateway.simulator.seen.count() - before).toBe(4);
    setup.accept([newControlKey], [newKey]);
    expect((await setup.run('verify', ...quick)).code).toBe(0);
  });

  it('prints the same as JSON, with full fingerprints', async () => {
    setup.accept([], [oldKey]);
    const { code, out } = await setup.run('verify', ...quick, '--json');
    expect(code).toBe(1);
    const about = { version: 1, createdAt: expect.any(String), state: 'current' };
    expect(JSON.parse(out)).toEqual({
      environment: 'sandbox',
      login: 'acme',
      keys: [
        {
          ...about,
          kind: 'control_key',
          fingerprint: 'cfbe',
          result: 'rejected',
          status: 403,
          detail: 'wrong key, or balances are not enabled',
        },
        { ...about, kind: 'private_key', fingerprint: oldFingerprint, result: 'accepted', status: 200 },
      ],
    });
  });

  it('reports a clock skew that is too large for a signature to be accepted', async () => {
    const late = new KeysTestEnvironment({ gatewayClock: () => Date.now() + 3_600_000 });
    await late.open();
    late.accept([], [oldKey]);
    await late.put({ private_key: oldKey });
    const { out } = await late.run('verify', ...quick, '--json');
    await late.close();
    expect(JSON.parse(out).keys[0].detail).toMatch(/^clock skew of 3(600|599) s$/);
  });

  it('reports unusable keys, and a status query without an endpoint', async () => {
    setup.accept([oldControlKey], [oldKey]);
    await setup.put({ control_key: '', private_key: newKey });
    const environments = { sandbox: { baseUrl: setup.gateway.url, product: 'gw' } };
    const config = ['--config', setup.writeConfig('no-endpoint.yaml', { environments })];
    const { code, out } = await setup.run('verify', ...quick, ...config, '--json');
    expect(code).toBe(1);
    const rows: { result: string; detail?: string }[] = JSON.parse(out).keys;
    expect(rows.map(({ result, detail }) => [result, detail])).toEqual([
      ['unusable', 'the control key (field control_key) is empty'],
      ['skipped', 'a status query requires --endpoint ID'],
      ['accepted', undefined],
      ['skipped', 'a status query requires --endpoint ID'],
    ]);
    const named = await setup.run('verify', ...quick, ...config, '--endpoint', '1235');
    expect(resultsIn(named.out)[3]).toBe(`1 private_key ${short(oldFingerprint)} accepted (200)`);
  });

  it('asks for the endpoint and the order that are named', async () => {
    setup.accept([], [oldKey]);
    const order = ['--endpoint', '1235', '--client-orderid', 'known-order'];
    await setup.run('verify', ...quick, ...order);
    const entry = setup.gateway.simulator.journal.entries().at(-1);
    expect(entry).toMatchObject({ path: '/gw/api/v4/status/1235', operation: 'order-status' });
    expect(entry?.parameters).toContainEqual({ name: 'client_orderid', value: 'known-order' });
  });

  it('is inconclusive for another product or path', async () => {
    const environments = { sandbox: { baseUrl: setup.gateway.url, product: 'wrong' } };
    const config = ['--config', setup.writeConfig('wrong-product.yaml', { environments })];
    const { code, out } = await setup.run('verify', ...quick, ...config);
    expect(code).toBe(1);
    expect(resultsIn(out)[0]).toBe('1 control_key cfbe inconclusive (404)');
  });

  it('reports no response if the gateway cannot be reached', async () => {
    const environments = { sandbox: { baseUrl: 'http://127.0.0.1:1', product: 'gw' } };
    const config = ['--config', setup.writeConfig('no-gateway.yaml', { environments })];
    const { code, out } = await setup.run('verify', ...quick, ...config);
    expect(code).toBe(1);
    expect(resultsIn(out)[0]).toBe('1 control_key cfbe no response: gateway-unreachable');
  });

  it('never signs an operation that is not a query, even if the configuration says that it is read-only', async () => {
    const operations = {
      'manager-balance': { readOnly: false },
      'order-status': { signature: 'HMAC-SHA1' },
      transfer: { readOnly: true },
    } as const;
    const config = ['--config', setup.writeConfig('changed.yaml', { operations })];
    const before = setup.gateway.simulator.seen.count({ operation: 'transfer' });
    const { out } = await setup.run('verify', ...quick, ...config, '--json');
    const rows: { result: string; detail?: string }[] = JSON.parse(out).keys;
    expect(rows[1]).toMatchObject({
      kind: 'private_key',
      result: 'skipped',
      detail: 'no read-only operation uses this key type',
    });
    expect(setup.gateway.simulator.seen.count({ operation: 'transfer' })).toBe(before);
  });

  it('takes 401 for a rejection, as 403', async () => {
    const gateway = await startFaultyGateway([always(httpResponse('401 Unauthorized', ''))]);
    const environments = { sandbox: { baseUrl: gateway.url, product: 'gw' } };
    const config = ['--config', setup.writeConfig('unauthorized.yaml', { environments })];
    const { code, out } = await setup.run('verify', ...quick, ...config);
    await gateway.close();
    expect([code, resultsIn(out)[0]]).toEqual([
      1,
      '1 control_key cfbe rejected (401): wrong key, or balances are not enabled',
    ]);
  });

  it('fails for a login without keys, and for an invalid interval', async () => {
    await setup.admin.deleteVersions('gateway/sandbox/acme', [1]);
    expect((await setup.run('verify', '--login', 'acme')).err).toBe(
      'countersign keys verify: sandbox/acme has no keys; check the spelling',
    );
    expect(await setup.run('verify', '--login', 'unknown')).toMatchObject({ code: 1, out: '' });
    expect(await setup.run('verify', '--login', 'acme', '--interval', 'x')).toMatchObject({
      code: 2,
      out: '',
    });
  });
});

describe('keys in a directory', () => {
  function directoryConfig(): readonly string[] {
    const directory = `${setup.folder.path}/keys`;
    writeKeys(directory, 'sandbox', 'acme', { controlKey: oldControlKey, privateKey: oldKey });
    return ['--config', setup.writeConfig('directory.yaml', { keys: { source: 'directory', directory } })];
  }

  it('are listed and verified', async () => {
    setup.accept([oldControlKey], [oldKey]);
    const config = directoryConfig();
    const { code, out } = await setup.run('list', ...config);
    expect(code).toBe(0);
    expect(out).toContain(oldFingerprint);
    expect(Math.max(...out.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(100);
    expect(await setup.run('verify', ...config, ...quick)).toMatchObject({ code: 0 });
  });

  it.each([['generate'], ['import', '--kind', 'control_key'], ['rollback', '--to-version', '1']])(
    'are not changed by %s, which says so',
    async (name, ...options) => {
      const { code, out, err } = await setup.run(name, ...directoryConfig(), '--login', 'acme', ...options);
      expect({ code, out }).toEqual({ code: 2, out: '' });
      expect(err).toContain('which Countersign does not manage');
    },
  );
});
