import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { faultRule } from '../../src/simulator/faults.ts';
import type { JournalEntry } from '../../src/simulator/journal.ts';
import { listenSimulatorWithAdmin } from '../../src/simulator/listen.ts';
import { post as sendForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { loadScenario } from '../support/scenario.ts';
import {
  balanceDraft,
  controlKey,
  type Draft,
  fieldsOf,
  gatewayKeys,
  noon,
  post,
  privateKey,
  send as sendWire,
  shippedScenario,
  signatureOf,
  startSimulator,
  statusDraft,
  transferDraft,
  wireOf,
  withOAuth,
} from '../support/simulator.ts';

const starts = harness(afterAll);
type Started = Awaited<ReturnType<typeof listenSimulatorWithAdmin>>;
let started: Started;

const options = {
  scenario: loadScenario(shippedScenario()),
  keys: new Map(['acme', 'beta'].map((login) => [login, gatewayKeys])),
  clock: () => noon,
  serialNumber: () => 'sn-1',
  port: 0,
};
beforeAll(async () => {
  const admin = { port: 0, allowedHosts: ['simulator.test'] };
  started = starts.closing(await listenSimulatorWithAdmin({ ...options, admin }));
});
beforeEach(() => started.simulator.reset());

/** A body that is text is sent as it is, everything else as JSON. */
async function call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  const response = await fetch(`${started.adminUrl}${path}`, {
    method,
    headers: { ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text), text, response };
}
const journal = async (): Promise<JournalEntry[]> => (await call('GET', '/journal')).body.entries;
const fault = (rule: object) => call('POST', '/faults', rule);

const send = (draft: Draft) => post(started.url, draft);
const statusOf = async (draft: Draft): Promise<number> => (await send(draft)).status;
const rejectionOf = async (draft: Draft) => (await send(draft)).headers['simulator-rejection'];
const status = (id = 'invoice-1') => statusDraft([['client_orderid', id]]);
const transfer = (id: string) => transferDraft([['client_orderid', id]]);
const stateOf = async (id: string) => fieldsOf((await send(status(id))).body)['status'];
const ofScenario = options.scenario.faults.length;
const pem = (key: KeyObject) => key.export({ type: 'spki', format: 'pem' });

describe('a fault that is added', () => {
  it('"status-403" rejects a login as often as it says, without an effect', async () => {
    const added = await fault({ login: 'acme', fault: 'status-403', times: 2 });
    const shown = { login: 'acme', times: 2, delaySeconds: 0, fault: 'status-403', beforeEffect: false };
    expect([added.status, added.body]).toEqual([201, shown]);
    expect(await rejectionOf(transfer('t-1'))).toBe('fault-injected');
    const others = [balanceDraft([], 'beta'), transfer('t-1'), balanceDraft()];
    const statuses: number[] = [];
    for (const draft of others) statuses.push(await statusOf(draft));
    expect(statuses).toEqual([200, 403, 200]);
    expect(await stateOf('t-1')).toBe('error');
    const [entry] = await journal();
    expect(entry).toMatchObject({ rejection: 'fault-injected', status: 403 });
    expect(entry?.fault).toEqual({ fault: 'status-403' });
    expect((await call('GET', '/faults')).body).toHaveLength(ofScenario);
  });

  it.each([429, 500, 502, 503])(
    '"status-%d" comes after the effect, and before it if that is wanted',
    async (code) => {
      const of = { operation: 'transfer', fault: `status-${code}` };
      await fault({ ...of, client_orderid: 't-1' });
      await fault({ ...of, beforeEffect: true });
      expect([await statusOf(transfer('t-1')), await statusOf(transfer('t-2'))]).toEqual([code, code]);
      expect([await stateOf('t-1'), await stateOf('t-2')]).toEqual(['processing', 'error']);
      const entries = (await journal()).slice(0, 2);
      expect(entries.map(({ steps }) => steps.at(-1)?.step)).toEqual(['operation', 'nonce']);
      const shown = { operation: 'transfer', login: 'acme', status: code, fault: { fault: of.fault } };
      expect(entries).toMatchObject([shown, shown]);
      for (const entry of entries) expect(entry).not.toHaveProperty('rejection');
    },
  );

  it('"reset" gives no response: after the effect in the scenario, and before it if that is wanted', async () => {
    const reset = { code: 'ECONNRESET' };
    await expect(send(transfer('lost-response'))).rejects.toMatchObject(reset);
    expect(await stateOf('lost-response')).toBe('processing');
    await fault({ client_orderid: 't-1', fault: 'reset', beforeEffect: true, times: 1 });
    await expect(send(transfer('t-1'))).rejects.toMatchObject(reset);
    expect(await stateOf('t-1')).toBe('error');
    expect((await journal())[2]).toMatchObject({ status: null, fault: { fault: 'reset' } });
  });

  it('delays the response', async () => {
    await fault({ delaySeconds: 0.1 });
    const before = performance.now();
    expect(await statusOf(status())).toBe(200);
    expect(performance.now() - before).toBeGreaterThan(95);
    expect((await journal())[0]?.fault).toEqual({ delaySeconds: 0.1 });
  });

  it('is removed with all others', async () => {
    expect((await call('DELETE', '/faults')).status).toBe(204);
    expect((await call('GET', '/faults')).body).toEqual([]);
    expect(await statusOf(transfer('lost-response'))).toBe(200);
  });
});

it('a delayed response does not keep the simulator from closing', async () => {
  const begun = Promise.withResolvers<void>();
  const { url, close } = await starts.simulator({
    fault: () => {
      begun.resolve();
      return { delaySeconds: 3600 };
    },
  });
  const response = post(url, status()).catch((error: unknown) => error);
  await begun.promise;
  await close();
  expect(await response).toMatchObject({ code: 'ECONNRESET' });
});

it('the clock offset moves the timestamp window and the Date header', async () => {
  const set = await call('PUT', '/clock', { offsetSeconds: 600 });
  expect(set.body).toEqual({ offsetSeconds: 600, time: '2026-01-15T12:10:00.000Z' });
  const { headers } = await send(status());
  expect(headers['simulator-rejection']).toBe('timestamp-outside-window');
  expect(headers.date).toBe('Thu, 15 Jan 2026 12:10:00 GMT');
  expect(await statusOf(withOAuth(status(), 'oauth_timestamp', String(noon / 1000 + 600)))).toBe(200);
  expect((await call('GET', '/clock')).body).toMatchObject({ offsetSeconds: 600 });
});

describe('the keys of a login', () => {
  const next = generateKeyPairSync('rsa', { modulusLength: 2048 });

  it('are added, so that old and new ones are accepted', async () => {
    const both = { controlKeys: ['next'], publicKeys: [pem(next.publicKey)] };
    const added = await call('POST', '/keys/acme', both);
    expect(added.body).toEqual({ controlKeys: 2, publicKeys: [expect.any(String), expect.any(String)] });
    for (const draft of [
      balanceDraft(),
      { ...balanceDraft(), key: 'next' },
      status(),
      { ...status(), key: next.privateKey },
    ])
      expect(await statusOf(draft)).toBe(200);
    const upToTheLimit = { controlKeys: Array(18).fill('more') };
    expect((await call('POST', '/keys/acme', upToTheLimit)).body.controlKeys).toBe(20);
    const used = (await journal()).map(({ steps }) => steps.find(({ key }) => key)?.key?.index);
    expect(used).toEqual([0, 1, 0, 1]);
  });

  it('are replaced, one kind at a time, and those of before are rejected', async () => {
    const replaced = await call('PUT', '/keys/acme', { controlKeys: ['next'] });
    expect(replaced.body).toMatchObject({ controlKeys: 1, publicKeys: [expect.any(String)] });
    expect(await rejectionOf(balanceDraft())).toBe('signature-wrong');
    for (const draft of [{ ...balanceDraft(), key: 'next' }, status(), balanceDraft([], 'beta')])
      expect(await statusOf(draft)).toBe(200);
    await call('PUT', '/keys/acme', { publicKeys: [pem(next.publicKey)] });
    expect(await rejectionOf(status())).toBe('signature-wrong');
  });

  it('never appear in a response', async () => {
    const texts = [
      await call('POST', '/keys/acme', { controlKeys: ['marked-key'] }),
      await call('POST', '/keys/acme', { controlKeys: ['marked-key'], extra: 'marked-key' }),
      await call('POST', '/keys/acme', { publicKeys: ['marked-key'] }),
      await call('POST', '/keys/acme', '{"controlKeys": ["marked-key"'),
      await call('GET', '/keys'),
    ].map(({ text }) => text);
    expect(texts.join('')).not.toContain('marked-key');
    expect(texts.every((text) => text.length > 20)).toBe(true);
  });
});

describe('a reset', () => {
  it('returns to the start', async () => {
    await call('PUT', '/keys/acme', { controlKeys: ['next'] });
    await fault({ operation: 'order-status', fault: 'status-500' });
    await call('PUT', '/clock', { offsetSeconds: 60 });
    const draft = transfer('t-1');
    const first = await send(draft);
    expect((await call('POST', '/reset')).status).toBe(204);

    expect(await journal()).toEqual([]);
    expect((await call('GET', '/clock')).body.offsetSeconds).toBe(0);
    expect(await statusOf(balanceDraft())).toBe(200);
    expect(await stateOf('t-1')).toBe('error');
    const { status: code, body } = await send(draft);
    expect([code, fieldsOf(body)['gw-order-id']]).toEqual([200, fieldsOf(first.body)['gw-order-id']]);
    expect((await journal()).map(({ id }) => id)).toEqual([1, 2, 3]);
  });

  it('of some parts keeps the others', async () => {
    const draft = balanceDraft();
    await send(draft);
    await call('POST', '/reset', { parts: ['nonces'] });
    expect(await statusOf(draft)).toBe(200);
    expect(await journal()).toHaveLength(2);
  });
});

describe('the admin API rejects', () => {
  const ed25519 = pem(generateKeyPairSync('ed25519').publicKey);
  const pkcs8 = privateKey.export({ type: 'pkcs8', format: 'pem' });

  it.each<[string, string, unknown, number, string]>([
    ['an unknown path', 'GET /journals', undefined, 404, 'GET / lists the endpoints'],
    ['another method', 'DELETE /journal', undefined, 405, 'GET'],
    ['another method than those of the path', 'GET /keys/acme', undefined, 405, 'is POST or PUT'],
    ['a body where none is read', 'DELETE /faults', { id: 1 }, 400, 'is not a known key'],
    ['an unknown field', 'POST /faults', { faul: 'reset' }, 400, 'did you mean \\"fault\\"?'],
    ['an unknown operation', 'POST /faults', { fault: 'reset', operation: 'transfers' }, 400, 'transfer'],
    ['an unknown login in a fault', 'POST /faults', { fault: 'reset', login: 'x' }, 400, 'under logins'],
    ['an unknown part', 'POST /reset', { parts: ['all'] }, 400, 'must be journal or'],
    ['keys of an unknown login', 'PUT /keys/gamma', { controlKeys: ['x'] }, 404, 'Add it to the scenario'],
    ['an empty control key', 'PUT /keys/acme', { controlKeys: [''] }, 400, 'must not be empty'],
    ['half of a character', 'PUT /keys/acme', { controlKeys: ['\ud800'] }, 400, 'must be valid Unicode'],
    ['no keys', 'POST /keys/acme', {}, 400, 'must have controlKeys or publicKeys'],
    ['too many keys', 'POST /keys/acme', { controlKeys: Array(20).fill('x') }, 409, 'with PUT'],
    ['a private key', 'PUT /keys/acme', { publicKeys: [pkcs8] }, 400, 'in private_key.pem -pubout'],
    ['a key that is not RSA', 'PUT /keys/acme', { publicKeys: [ed25519] }, 400, 'must be an RSA public key'],
    ['JSON that is cut', 'POST /reset', '{"parts":', 400, 'not valid JSON'],
    ['a large body', 'POST /reset', { parts: ['x'.repeat(70_000)] }, 413, '64 KiB'],
    ['a query', 'GET /keys?login=acme', undefined, 400, 'No endpoint reads a query'],
  ])('%s', async (_, request, body, code, text) => {
    const [method = '', path = ''] = request.split(' ');
    const rejected = await call(method, path, body);
    expect([rejected.status, rejected.text]).toEqual([code, expect.stringContaining(text)]);
    const { headers } = rejected.response;
    expect(headers.get('content-type')).toMatch(/^application\/problem\+json/);
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('allow')).toBe(code !== 405 ? null : path === '/journal' ? 'GET' : 'POST, PUT');
    expect((await call('GET', '/keys')).body.acme.controlKeys).toBe(1);
    expect((await call('GET', '/faults')).body).toHaveLength(ofScenario);
  });

  it('more than a thousand faults', async () => {
    const { faults } = started.simulator;
    const rule = faultRule.parse({ fault: 'reset' });
    for (let count = ofScenario; count < 1000; count += 1) faults.add(rule);
    const { status: code, body } = await fault({ fault: 'reset' });
    expect([code, body.detail]).toEqual([409, 'There are too many faults. Remove them with DELETE /faults']);
  });

  it('a body that is not declared as JSON', async () => {
    const { status: code, body } = await call('POST', '/reset', '{}', { 'Content-Type': 'text/plain' });
    expect([code, body.detail]).toEqual([415, expect.stringContaining('curl --json')]);
  });

  it('the host name of another site, and pages of another site', async () => {
    const at = (host: string) => sendForm(`${started.adminUrl}/keys`, '', { host }, { method: 'GET' });
    const [evil, ...others] = await Promise.all(['evil.test', 'localhost', 'simulator.test:8091'].map(at));
    expect(evil).toMatchObject({ status: 421, body: expect.stringContaining('--admin-allowed-host') });
    expect(others.map(({ status }) => status)).toEqual([200, 200]);
    const { clock } = started.simulator;
    clock.offsetSeconds = 5;
    expect((await call('POST', '/reset', undefined, { Origin: 'http://evil.test' })).status).toBe(403);
    expect(clock.offsetSeconds).toBe(5);
  });
});

it('neither port is open if one of them is in use', async () => {
  const inUse = Number(new URL(started.url).port);
  const free = await startSimulator();
  await free.close();
  const port = Number(new URL(free.url).port);
  const both = listenSimulatorWithAdmin({ ...options, port, admin: { port: inUse } });
  await expect(both).rejects.toMatchObject({ code: 'EADDRINUSE' });
  await expect(post(free.url, status())).rejects.toMatchObject({ code: 'ECONNREFUSED' });
});

describe('the journal', () => {
  it('shows each step of an accepted request, and the key that made the signature', async () => {
    await send(status());
    const [entry] = await journal();
    expect(entry).toMatchObject({
      id: 1,
      time: '2026-01-15T12:00:00.000Z',
      method: 'POST',
      path: '/gw/api/v4/status/1234',
      operation: 'order-status',
      login: 'acme',
      parameters: [
        { name: 'login', value: 'acme' },
        { name: 'client_orderid', value: 'invoice-1' },
      ],
      status: 200,
    });
    for (const absent of ['rejection', 'hint', 'fault', 'omittedParameters'])
      expect(entry).not.toHaveProperty(absent);
    const steps =
      'form authorization oauth-parameters method timestamp login base-string signature nonce operation';
    expect(entry?.steps.map(({ step, result }) => [step, result])).toEqual(
      steps.split(' ').map((step) => [step, 'passed']),
    );
    const [fingerprint] = (await call('GET', '/keys')).body.acme.publicKeys;
    const key = { kind: 'private_key', index: 0, fingerprint };
    expect(entry?.steps.find(({ step }) => step === 'signature')?.key).toEqual(key);
    expect(entry?.steps.find(({ step }) => step === 'base-string')?.baseString).toContain(
      'client_orderid%3Dinvoice-1%26login%3Dacme%26oauth_consumer_key%3Dacme',
    );
  });

  const late = noon / 1000 - 400;
  it.each<[string, Draft, object, object?]>([
    [
      'a signature of another key: the keys that were tried',
      { ...balanceDraft(), key: 'another' },
      { step: 'signature', rejection: 'signature-wrong', triedKeys: [{ kind: 'control_key', index: 0 }] },
      { hint: expect.stringContaining('No key of the login made this signature') },
    ],
    [
      'a timestamp: how far it is from the clock',
      withOAuth(balanceDraft(), 'oauth_timestamp', String(late)),
      { step: 'timestamp', timestamp: late, clock: noon / 1000, windowSeconds: 300 },
    ],
    [
      'a signature method: the required one',
      { ...statusDraft([]), path: '/gw/api/v2/get-balance/manager/acme' },
      { step: 'method', requiredMethod: 'HMAC-SHA1', receivedMethod: 'RSA-SHA256' },
    ],
  ])('shows why it rejected %s', async (_, draft, step, ...[fields = {}]) => {
    const rejection = await rejectionOf(draft);
    const [entry] = await journal();
    expect(entry).toMatchObject({ status: 403, rejection, ...fields });
    expect(entry?.steps.at(-1)).toMatchObject({ result: 'failed', rejection, ...step });
    expect(entry?.steps.slice(0, -1).every(({ result }) => result === 'passed')).toBe(true);
  });

  it('holds no card data, keys or signatures', async () => {
    const card = '4111111111111111';
    const draft = transferDraft([
      ['client_orderid', 't-1'],
      ['credit_card_number', card],
      ['cvv2', 'marked-cvv'],
      ['card_printed_name', 'Ada Example'],
      ['order_desc', `paid with ${card}`],
      [card, 'x'],
    ]);
    await send(draft);
    await send({ ...draft, path: `/gw/api/v4/transfer/${card}` });
    await send({ ...balanceDraft(), key: 'secret-of-the-signer' });
    await send(balanceDraft([['oauth_4111-1111-1111-1111', 'x']], card));
    await send(withOAuth(balanceDraft(), 'oauth_signature_method', card));
    const signature = signatureOf(started.url, draft).slice(0, 20);
    const { text, body } = await call('GET', '/journal');
    expect(body.entries).toHaveLength(5);
    expect(text).toContain('"cvv2"');
    const secrets = [card, 'marked-cvv', 'Ada', '4111-1111', controlKey, 'AF4B7DE6', 'secret-of-', signature];
    for (const secret of secrets) expect(text).not.toContain(secret);
  });

  it('is bounded, also for large forms', async () => {
    const form = Array.from({ length: 299 }, (_, index) => [`p${index}`, 'v'.repeat(2000)] as const);
    await send(transferDraft([['whole', 'v'.repeat(256)], ...form]));
    const [entry] = await journal();
    expect(entry?.parameters).toHaveLength(100);
    expect(entry?.omittedParameters).toBe(202);
    expect(entry?.parameters[0]?.value).toBe('v'.repeat(256));
    expect(entry?.parameters[1]?.value).toBe(`${'v'.repeat(256)}... (1744 more characters)`);
    expect(JSON.stringify(entry).length).toBeLessThan(50_000);
  });

  it('has requests for unknown paths, and bodies that cannot be read', async () => {
    const wire = wireOf(started.url, status());
    await sendWire(started.url, { ...wire, path: '/gw/api/v4/refund/1234' });
    await sendWire(started.url, { ...wire, headers: { 'Content-Encoding': 'gzip' } });
    const hint = 'No operation of the scenario has this method and path.';
    expect(await journal()).toMatchObject([
      { path: '/gw/api/v4/refund/1234', status: 404, steps: [], hint },
      { path: '/gw/api/v4/status/1234', status: 415, steps: [] },
    ]);
  });
});
