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
const [oldShort, newShort] = [oldFingerprint, newFingerprint].map((one) => one.slice(0, 16));

const setup = new KeysTestEnvironment();
const quick = 'verify --login acme --interval 0';

beforeAll(() => setup.open());
afterAll(() => setup.close());
beforeEach(async () => {
  await setup.forget();
  await setup.put({ control_key: oldControlKey, private_key: oldKey });
});

function resultsIn(out: string): string[] {
  const lines = out.split('\n').slice(2);
  return lines.map((line) => line.trim().replaceAll(/ +(\d+s +)?/g, ' '));
}

const seen = () => setup.gateway.simulator.seen;
const sandboxOf = (baseUrl: string, product = 'gw') => ({ environments: { sandbox: { baseUrl, product } } });

/** With another configuration. */
async function verifyWith(changed: Parameters<typeof setup.writeConfig>[1], more = '') {
  const config = setup.writeConfig('changed.yaml', changed);
  const { code, out } = await setup.run(`${quick} --config ${config}${more}`);
  return { code, rows: resultsIn(out) };
}

describe('keys verify', () => {
  it('accepts the only version, and requests only a status and the balances', async () => {
    setup.accept([oldControlKey], [oldKey]);
    const statusesOf = () => seen().accepted({ operation: 'order-status', login: 'acme', keyIndex: 0 });
    const [all, statuses] = [seen().count(), statusesOf()];
    const { code, out } = await setup.run(quick);
    expect(resultsIn(out)).toEqual([
      '1 control_key cfbe accepted (200)',
      `1 private_key ${oldShort} accepted (200)`,
    ]);
    expect(code).toBe(0);
    expect([seen().count() - all, statusesOf() - statuses]).toEqual([2, 1]);
    expect(Math.max(...out.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(100);
  });

  it('reports that the gateway still has the previous version, and probes a key of two versions once', async () => {
    setup.accept([newControlKey], [oldKey]);
    await setup.put({ control_key: newControlKey, private_key: oldKey });
    await setup.put({ control_key: newControlKey, private_key: newKey });
    const before = seen().count();
    const { code, out } = await setup.run(quick);
    expect(resultsIn(out)).toEqual([
      '3 control_key 9b1d accepted (200)',
      `3 private_key ${newShort} rejected (403)`,
      '2 control_key 9b1d accepted (200)',
      `2 private_key ${oldShort} accepted (200)`,
      '1 control_key cfbe rejected (403): wrong key, or balances are not enabled',
      `1 private_key ${oldShort} accepted (200)`,
    ]);
    expect(code).toBe(1);
    expect(seen().count() - before).toBe(4);
    setup.accept([newControlKey], [newKey]);
    expect((await setup.run(quick)).code).toBe(0);
  });

  it('prints the same as JSON, with full fingerprints', async () => {
    setup.accept([], [oldKey]);
    const { code, out } = await setup.run(`${quick} --json`);
    expect(code).toBe(1);
    const about = { version: 1, createdAt: expect.any(String), state: 'current' };
    const detail = 'wrong key, or balances are not enabled';
    expect(JSON.parse(out)).toEqual({
      environment: 'sandbox',
      login: 'acme',
      keys: [
        { ...about, kind: 'control_key', fingerprint: 'cfbe', result: 'rejected', status: 403, detail },
        { ...about, kind: 'private_key', fingerprint: oldFingerprint, result: 'accepted', status: 200 },
      ],
    });
  });

  it('reports a clock skew that is too large for a signature to be accepted', async () => {
    const date = new Date(Date.now() + 3_600_000).toUTCString();
    const gateway = await startFaultyGateway([always(httpResponse('403 Forbidden', '', [`Date: ${date}`]))]);
    const config = setup.writeConfig('late.yaml', sandboxOf(gateway.url));
    const { out } = await setup.run(`${quick} --json --config ${config}`);
    await gateway.close();
    expect(JSON.parse(out).keys[0].detail).toMatch(/; clock skew of 3(600|59\d) s$/);
  });

  it('reports unusable keys, and a status query without an endpoint', async () => {
    setup.accept([oldControlKey], [oldKey]);
    await setup.put({ control_key: '', private_key: newKey });
    const skipped = 'skipped: a status query requires --endpoint ID';
    expect(await verifyWith(sandboxOf(setup.gateway.url))).toEqual({
      code: 1,
      rows: [
        '2 control_key - unusable: the control key (field control_key) is empty',
        `2 private_key ${newShort} ${skipped}`,
        '1 control_key cfbe accepted (200)',
        `1 private_key ${oldShort} ${skipped}`,
      ],
    });
    const named = await verifyWith(sandboxOf(setup.gateway.url), ' --endpoint 1235');
    expect(named.rows[3]).toBe(`1 private_key ${oldShort} accepted (200)`);
  });

  it('fails if a key is missing that an older version has, or that a grant of this very login needs', async () => {
    setup.accept([oldControlKey], []);
    const granted = (login: string) => {
      const allow = [{ environments: ['*'], operations: ['transfer'], logins: [login] }];
      return verifyWith({ callers: [{ name: 'a', credentials: [{ anonymous: true }], allow }] });
    };
    await setup.put({ control_key: oldControlKey });
    const lost = '2 private_key - unusable: no such key, but an older version has it';
    expect(await granted('ac*')).toMatchObject({ code: 1, rows: expect.arrayContaining([lost]) });
    await setup.forget();
    await setup.put({ control_key: oldControlKey });
    expect((await granted('ac*')).code).toBe(0);
    const missing = '1 private_key - unusable: no such key, but a grant of this login needs it';
    expect(await granted('acme')).toMatchObject({ code: 1, rows: [missing, expect.anything()] });
  });

  it('asks for the endpoint and the order that are named', async () => {
    setup.accept([], [oldKey]);
    await setup.run(`${quick} --endpoint 1235 --client-orderid known-order`);
    const entry = setup.gateway.simulator.journal.entries().at(-1);
    expect(entry).toMatchObject({ path: '/gw/api/v4/status/1235', operation: 'order-status' });
    expect(entry?.parameters).toContainEqual({ name: 'client_orderid', value: 'known-order' });
  });

  it('is inconclusive for another product or path, says so without a response, and takes 401 for a rejection', async () => {
    const gateway = await startFaultyGateway([always(httpResponse('401 Unauthorized', ''))]);
    for (const [changed, result] of [
      [sandboxOf(setup.gateway.url, 'wrong'), 'inconclusive (404)'],
      [sandboxOf('http://127.0.0.1:1'), 'no response: gateway-unreachable'],
      [sandboxOf(gateway.url), 'rejected (401): wrong key, or balances are not enabled'],
    ] as const) {
      const { code, rows } = await verifyWith(changed);
      expect([code, rows[0]]).toEqual([1, `1 control_key cfbe ${result}`]);
    }
    await gateway.close();
  });

  it('never signs an operation that is not a query, even if the configuration says that it is read-only', async () => {
    const operations = {
      'manager-balance': { readOnly: false },
      'order-status': { signature: 'HMAC-SHA1' },
      transfer: { readOnly: true },
    } as const;
    const before = seen().count({ operation: 'transfer' });
    const { rows } = await verifyWith({ operations });
    expect(rows[1]).toMatch(/skipped: no read-only operation uses this key type$/);
    expect(seen().count({ operation: 'transfer' })).toBe(before);
  });
});

describe('keys in a directory', () => {
  let config: string;
  beforeAll(() => {
    const directory = `${setup.folder.path}/keys`;
    writeKeys(directory, 'sandbox', 'acme', { controlKey: oldControlKey, privateKey: oldKey });
    config = setup.writeConfig('directory.yaml', { keys: { source: 'directory', directory } });
  });

  it('are listed and verified', async () => {
    setup.accept([oldControlKey], [oldKey]);
    const { code, out } = await setup.run(`list --config ${config}`);
    expect(code).toBe(0);
    expect(out).toContain(oldFingerprint);
    expect((await setup.run(`${quick} --config ${config}`)).code).toBe(0);
  });

  it.each(['generate', 'import --kind control_key', 'rollback --to-version 1'])(
    'are not changed by %s, which says so',
    async (line) => {
      const { code, out, err } = await setup.run(`${line} --config ${config} --login acme`);
      expect({ code, out }).toEqual({ code: 2, out: '' });
      expect(err).toContain('which Countersign does not manage');
    },
  );
});
