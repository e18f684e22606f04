import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { faultRule } from '../../src/simulator/faults.ts';
import { listenSimulatorWithAdmin } from '../../src/simulator/listen.ts';
import { harness } from '../support/harness.ts';
import { loadScenario } from '../support/scenario.ts';
import {
  balanceDraft,
  type Draft,
  fieldsOf,
  noon,
  privateKey,
  send,
  shippedScenario,
  startSimulator,
  statusDraft,
  transferDraft,
  wireOf,
  withOAuth,
} from '../support/simulator.ts';
import { journalOf, startWithAdmin } from '../support/simulator-admin.ts';

const starts = harness();

const start = async (options?: Parameters<typeof startWithAdmin>[0]) =>
  starts.closing(await startWithAdmin(options));

const status = () => statusDraft([['client_orderid', 'invoice-1']]);
const transfer = (id: string) => transferDraft([['client_orderid', id]]);
/** The ID of the first fault that is added: those of the scenario have the first ones. */
const firstFault = loadScenario(shippedScenario()).faults.length + 1;
const pem = (key: KeyObject) => key.export({ type: 'spki', format: 'pem' });

describe('a fault that is added', () => {
  it('"status-403" rejects a login as often as it says, without an effect', async () => {
    const started = await start();
    const added = await started.call('POST', '/faults', { login: 'acme', fault: 'status-403', times: 2 });
    expect([added.status, added.body]).toEqual([
      201,
      {
        id: firstFault,
        login: 'acme',
        delaySeconds: 0,
        fault: 'status-403',
        beforeEffect: false,
        remaining: 2,
      },
    ]);
    const responses = [
      await started.send(transfer('t-1')),
      await started.send(balanceDraft([], 'beta')),
      await started.send(transfer('t-1')),
      await started.send(balanceDraft()),
    ];
    expect(responses.map(({ status }) => status)).toEqual([403, 200, 403, 200]);
    expect(responses[0]?.headers['simulator-rejection']).toBe('fault-injected');
    const query = await started.send(statusDraft([['client_orderid', 't-1']]));
    expect(fieldsOf(query.body)).toMatchObject({ 'error-message': 'Order not found' });
    const [entry] = await journalOf(started);
    expect(entry).toMatchObject({ rejection: 'fault-injected', status: 403 });
    expect(entry?.fault).toEqual({ id: firstFault, fault: 'status-403' });
    expect((await started.call('GET', '/faults')).body).toHaveLength(firstFault - 1);
  });

  it.each([
    [false, 'processing'],
    [true, 'error'],
  ])('"status-500" with beforeEffect %s leaves the order %s', async (beforeEffect, state) => {
    const started = await start();
    await started.call('POST', '/faults', { operation: 'transfer', fault: 'status-500', beforeEffect });
    expect((await started.send(transfer('t-1'))).status).toBe(500);
    const query = await started.send(statusDraft([['client_orderid', 't-1']]));
    expect(fieldsOf(query.body)['status']).toBe(state);
    const [entry] = await journalOf(started);
    expect(entry?.steps.at(-1)?.step).toBe(beforeEffect ? 'nonce' : 'operation');
    const fault = { fault: 'status-500' };
    expect(entry).toMatchObject({ operation: 'transfer', login: 'acme', status: 500, fault });
    expect(entry).not.toHaveProperty('rejection');
  });

  it.each([429, 502, 503])(
    '"status-%d" comes after the effect, and before it if that is wanted',
    async (status) => {
      const started = await start();
      const fault = `status-${status}`;
      await started.call('POST', '/faults', { operation: 'transfer', client_orderid: 't-1', fault });
      await started.call('POST', '/faults', { operation: 'transfer', fault, beforeEffect: true });
      expect((await started.send(transfer('t-1'))).status).toBe(status);
      expect((await started.send(transfer('t-2'))).status).toBe(status);
      const states = ['t-1', 't-2'].map(async (id) => {
        const { body } = await started.send(statusDraft([['client_orderid', id]]));
        return fieldsOf(body)['status'];
      });
      expect(await Promise.all(states)).toEqual(['processing', 'error']);
      expect((await journalOf(started)).slice(0, 2)).toMatchObject([{ status }, { status }]);
    },
  );

  it('"reset" before the effect leaves no order and no response', async () => {
    const started = await start();
    await started.call('POST', '/faults', {
      client_orderid: 't-1',
      fault: 'reset',
      beforeEffect: true,
      times: 1,
    });
    await expect(started.send(transfer('t-1'))).rejects.toMatchObject({ code: 'ECONNRESET' });
    const query = await started.send(statusDraft([['client_orderid', 't-1']]));
    expect(fieldsOf(query.body)['status']).toBe('error');
    expect((await journalOf(started))[0]).toMatchObject({ status: null, fault: { fault: 'reset' } });
  });

  it('delays the response', async () => {
    const started = await start();
    await started.call('POST', '/faults', { delaySeconds: 0.2 });
    const before = performance.now();
    expect((await started.send(status())).status).toBe(200);
    expect(performance.now() - before).toBeGreaterThan(190);
    expect((await journalOf(started))[0]?.fault).toEqual({ id: firstFault, delaySeconds: 0.2 });
  });

  it.each([0, 20])('"cut" ends the connection after %d bytes of the body', async (cutAfterBytes) => {
    const started = await start();
    const { body } = await started.send(status());
    await started.call('POST', '/faults', { fault: 'cut', cutAfterBytes });
    const received = await receivedOf(started.url, status());
    expect(received).toEqual({
      length: String(Buffer.byteLength(body)),
      body: body.slice(0, cutAfterBytes),
      complete: false,
    });
  });

  it('"cut" beyond the end of the body changes nothing', async () => {
    const started = await start();
    await started.call('POST', '/faults', { fault: 'cut', cutAfterBytes: 100_000 });
    expect((await receivedOf(started.url, status())).complete).toBe(true);
  });

  it('is removed by its ID, and all are removed at once', async () => {
    const started = await start();
    const { id } = (await started.call('POST', '/faults', { fault: 'status-500' })).body;
    expect((await started.send(status())).status).toBe(500);
    expect((await started.call('DELETE', `/faults/0x${id}`)).status).toBe(404);
    expect((await started.call('DELETE', `/faults/${id}`)).status).toBe(204);
    expect((await started.send(status())).status).toBe(200);
    expect((await started.call('DELETE', `/faults/${id}`)).status).toBe(404);
    expect((await started.call('DELETE', '/faults')).status).toBe(204);
    expect((await started.call('GET', '/faults')).body).toEqual([]);
    expect((await started.send(transfer('lost-response'))).status).toBe(200);
  });
});

it('the clock offset moves the timestamp window and the Date header', async () => {
  const started = await start();
  const set = await started.call('PUT', '/clock', { offsetSeconds: 600 });
  expect(set.body).toEqual({ offsetSeconds: 600, time: '2026-01-15T12:10:00.000Z' });
  const response = await started.send(status());
  expect(response.headers['simulator-rejection']).toBe('timestamp-outside-window');
  expect(response.headers['date']).toBe('Thu, 15 Jan 2026 12:10:00 GMT');
  const later = withOAuth(status(), 'oauth_timestamp', String(noon / 1000 + 600));
  expect((await started.send(later)).status).toBe(200);
  expect((await started.call('GET', '/clock')).body).toMatchObject({ offsetSeconds: 600 });
});

describe('the keys of a login', () => {
  const next = generateKeyPairSync('rsa', { modulusLength: 2048 });

  it('are added, so that old and new ones are accepted', async () => {
    const started = await start();
    const added = await started.call('POST', '/keys/acme', {
      controlKeys: ['next'],
      publicKeys: [pem(next.publicKey)],
    });
    expect(added.body).toEqual({ controlKeys: 2, publicKeys: [expect.any(String), expect.any(String)] });
    const drafts = [
      balanceDraft(),
      { ...balanceDraft(), key: 'next' },
      status(),
      { ...status(), key: next.privateKey },
    ];
    for (const draft of drafts) expect((await started.send(draft)).status).toBe(200);
    const upToTheLimit = { controlKeys: Array(18).fill('more') };
    expect((await started.call('POST', '/keys/acme', upToTheLimit)).body.controlKeys).toBe(20);
    const used = (await journalOf(started)).map(({ steps }) => steps.find(({ key }) => key)?.key?.index);
    expect(used).toEqual([0, 1, 0, 1]);
  });

  it('are replaced, one kind at a time', async () => {
    const started = await start();
    const replaced = await started.call('PUT', '/keys/acme', { controlKeys: ['next'] });
    expect(replaced.body).toMatchObject({ controlKeys: 1, publicKeys: [expect.any(String)] });
    expect((await started.send(balanceDraft())).headers['simulator-rejection']).toBe('signature-wrong');
    expect((await started.send({ ...balanceDraft(), key: 'next' })).status).toBe(200);
    expect((await started.send(status())).status).toBe(200);
    expect((await started.send(balanceDraft([], 'beta'))).status).toBe(200);
  });

  it('never appear in a response', async () => {
    const started = await start();
    const texts = [
      await started.call('POST', '/keys/acme', { controlKeys: ['marked-key'] }),
      await started.call('POST', '/keys/acme', { controlKeys: ['marked-key'], extra: 'marked-key' }),
      await started.call('POST', '/keys/acme', { publicKeys: ['marked-key'] }),
      await started.call('POST', '/keys/acme', '{"controlKeys": ["marked-key"'),
      await started.call('GET', '/keys'),
    ].map(({ text }) => text);
    expect(texts.join('')).not.toContain('marked-key');
    expect(texts.every((text) => text.length > 20)).toBe(true);
  });
});

describe('a reset', () => {
  it('returns to the start', async () => {
    const started = await start();
    await started.call('PUT', '/keys/acme', { controlKeys: ['next'] });
    await started.call('POST', '/faults', { operation: 'order-status', fault: 'status-500' });
    await started.call('PUT', '/clock', { offsetSeconds: 60 });
    const draft = transfer('t-1');
    const first = await started.send(draft);
    expect((await started.call('POST', '/reset')).status).toBe(204);

    expect(await journalOf(started)).toEqual([]);
    expect((await started.call('GET', '/clock')).body.offsetSeconds).toBe(0);
    expect((await started.send(balanceDraft())).status).toBe(200);
    const query = await started.send(statusDraft([['client_orderid', 't-1']]));
    expect(fieldsOf(query.body)).toMatchObject({ 'error-message': 'Order not found' });
    const again = await started.send(draft);
    expect([again.status, fieldsOf(again.body)['gw-order-id']]).toEqual([
      200,
      fieldsOf(first.body)['gw-order-id'],
    ]);
    expect((await journalOf(started)).map(({ id }) => id)).toEqual([1, 2, 3]);
  });

  it('of some parts keeps the others', async () => {
    const started = await start();
    const draft = balanceDraft();
    await started.send(draft);
    await started.call('POST', '/reset', { parts: ['nonces'] });
    expect((await started.send(draft)).status).toBe(200);
    expect(await journalOf(started)).toHaveLength(2);
  });
});

describe('the admin API rejects', () => {
  it.each<[string, string, string, unknown, number, string]>([
    ['an unknown path', 'GET', '/journals', undefined, 404, 'GET / lists the endpoints'],
    ['another method', 'DELETE', '/journal', undefined, 405, 'GET'],
    ['a body where none is read', 'DELETE', '/faults', { id: 1 }, 400, 'is not a known key'],
    ['an unknown field', 'POST', '/faults', { faul: 'reset' }, 400, 'did you mean \\"fault\\"?'],
    ['an unknown operation', 'POST', '/faults', { fault: 'reset', operation: 'transfers' }, 400, 'transfer'],
    ['an unknown login in a fault', 'POST', '/faults', { fault: 'reset', login: 'x' }, 400, 'under logins'],
    ['a number as text', 'POST', '/faults', { fault: 'reset', times: '2' }, 400, 'must be a whole number'],
    ['a list', 'POST', '/reset', [], 400, 'must be a mapping'],
    ['an unknown part', 'POST', '/reset', { parts: ['all'] }, 400, 'must be journal or'],
    ['an absent offset', 'PUT', '/clock', {}, 400, 'offsetSeconds'],
    ['keys of an unknown login', 'PUT', '/keys/gamma', { controlKeys: ['x'] }, 404, 'Add it to the scenario'],
    ['an empty control key', 'PUT', '/keys/acme', { controlKeys: [''] }, 400, 'must not be empty'],
    ['half of a character', 'PUT', '/keys/acme', { controlKeys: ['\ud800'] }, 400, 'must be valid Unicode'],
    ['no keys', 'POST', '/keys/acme', {}, 400, 'must have controlKeys or publicKeys'],
    ['too many keys', 'POST', '/keys/acme', { controlKeys: Array(20).fill('x') }, 409, 'with PUT'],
    [
      'a private key',
      'PUT',
      '/keys/acme',
      { publicKeys: [privateKey.export({ type: 'pkcs8', format: 'pem' })] },
      400,
      'openssl pkey -in private_key.pem -pubout',
    ],
    [
      'a key that is not RSA',
      'PUT',
      '/keys/acme',
      { publicKeys: [pem(generateKeyPairSync('ed25519').publicKey)] },
      400,
      'must be an RSA public key',
    ],
    ['JSON that is cut', 'POST', '/reset', '{"parts":', 400, 'not valid JSON'],
    ['a large body', 'POST', '/reset', { parts: ['x'.repeat(70_000)] }, 413, '64 KiB'],
  ])('%s', async (_, method, path, body, code, text) => {
    const started = await start();
    const response = await started.call(method, path, body);
    expect(response.status).toBe(code);
    const { headers } = response.response;
    expect(headers.get('content-type')).toMatch(/^application\/problem\+json/);
    expect([headers.get('cache-control'), headers.get('x-content-type-options')]).toEqual([
      'no-store',
      'nosniff',
    ]);
    expect(response.text).toContain(text);
    expect((await started.call('GET', '/keys')).body.acme.controlKeys).toBe(1);
    expect((await started.call('GET', '/faults')).body).toHaveLength(firstFault - 1);
  });

  it('more than a thousand faults', async () => {
    const { call, simulator } = await start();
    const rule = faultRule.parse({ fault: 'reset' });
    while (simulator.faults.list().length < 1000) simulator.faults.add(rule);
    const { status, body } = await call('POST', '/faults', { fault: 'reset' });
    expect([status, body.detail]).toEqual([
      409,
      'There are too many faults. Remove some with DELETE /faults',
    ]);
  });

  it('another method, and names those of the path', async () => {
    const { call } = await start();
    const { response, body } = await call('GET', '/keys/acme');
    expect([response.headers.get('allow'), body.detail]).toEqual([
      'POST, PUT',
      'The method of /keys/{login} is POST or PUT',
    ]);
  });

  it('an unknown query, and a query where none is read', async () => {
    const { call } = await start();
    expect((await call('GET', '/journal?logn=acme')).text).toContain('did you mean \\"login\\"?');
    expect((await call('GET', '/journal?after=x')).text).toContain('must be the ID of an entry');
    expect((await call('GET', '/keys?login=acme')).status).toBe(400);
  });

  it('a body that is not declared as JSON', async () => {
    const { call } = await start();
    const response = await call('POST', '/reset', '{}', { 'Content-Type': 'text/plain' });
    expect([response.status, response.body.detail]).toEqual([415, expect.stringContaining('curl --json')]);
  });

  it('the host name of another site, and pages of another site', async () => {
    const { adminUrl, call, simulator } = await start({ allowedHosts: ['simulator.test'] });
    simulator.clock.offsetSeconds = 5;
    expect(await statusWith(adminUrl, { host: 'evil.test' })).toBe(421);
    expect(await statusWith(adminUrl, { host: 'localhost' })).toBe(200);
    expect(await statusWith(adminUrl, { host: 'simulator.test:8091' })).toBe(200);
    expect((await call('POST', '/reset', undefined, { Origin: 'http://evil.test' })).status).toBe(403);
    expect(simulator.clock.offsetSeconds).toBe(5);
  });
});

it('the admin API lists its endpoints', async () => {
  const { call } = await start();
  expect((await call('GET', '/')).body).toContainEqual({
    method: 'POST',
    path: '/keys/{login}',
    summary: expect.any(String),
  });
});

it('neither port is open if one of them is in use', async () => {
  const { url } = await start();
  const inUse = Number(new URL(url).port);
  const { url: free, close } = await startSimulator();
  await close();
  const port = Number(new URL(free).port);
  const scenario = loadScenario(shippedScenario());
  const options = { scenario, keys: new Map(), clock: () => noon, port, admin: { port: inUse } };
  await expect(listenSimulatorWithAdmin(options)).rejects.toMatchObject({ code: 'EADDRINUSE' });
  await expect(send(free, wireOf(free, status()))).rejects.toMatchObject({ code: 'ECONNREFUSED' });
});

/** What arrives of a response, complete or not. */
function receivedOf(url: string, draft: Draft) {
  const { path, authorization, body } = wireOf(url, draft);
  const headers = {
    'Content-Type': 'application/x-www-form-urlencoded',
    Authorization: String(authorization),
  };
  return new Promise<{ length: string | undefined; body: string; complete: boolean }>((resolve, reject) => {
    const request = httpRequest(`${url}${path}`, { method: 'POST', agent: false, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', () => undefined);
      response.once('close', () =>
        resolve({
          length: response.headers['content-length'],
          body: Buffer.concat(chunks).toString(),
          complete: response.complete,
        }),
      );
    });
    request.once('error', reject);
    request.end(body);
  });
}

/** `fetch` does not send another Host. */
function statusWith(url: string, headers: Record<string, string>): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    httpRequest(`${url}/keys`, { headers, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .once('error', reject)
      .end();
  });
}
