import { createHash, generateKeyPairSync } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { auditFilesIn, auditIn, recordsOf } from '../support/audit.ts';
import { everything, tokenCredential } from '../support/config.ts';
import {
  closedPort,
  httpResponse,
  once,
  type RawRequest,
  type Script,
  silent,
} from '../support/faulty-gateway.ts';
import { type HttpResponse, paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import type { RecordingGateway } from '../support/recording-gateway.ts';
import { type Marks, marksIn } from '../support/secret-canaries.ts';
import { type ProxyOptions, type TestProxy, writeKeys } from '../support/service.ts';
import { startReceiver, tracingTo } from '../support/traced.ts';

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
const { d = '', p = '', q = '' } = privateKey.export({ format: 'jwk' });
const controlKey = 'mark+CONTROL/key=4711';
const token = 'mark-TOKEN-of-a-caller-0815';

/** Secrets of Countersign and its callers, which must not even be in a response. */
const keyMarks = {
  controlKey,
  token,
  pemLine: pem.split('\n')[3] ?? '',
  privateExponent: Buffer.from(d, 'base64url'),
  primeP: Buffer.from(p, 'base64url'),
  primeQ: Buffer.from(q, 'base64url'),
} satisfies Marks;
const cardMarks = {
  card: '4000009911223344',
  destinationCard: '5500008811223344',
  // With its check digit: an order ID is recorded unless it may be a card number.
  orderCard: '4000007711223344',
  cvv: 'cvv-90417731',
  holder: 'Mark Cardholder',
  path: 'mark-in-a-path',
} satisfies Marks;
const marks: Marks = { ...keyMarks, ...cardMarks };

const form = new URLSearchParams({
  login: 'acme',
  client_orderid: cardMarks.orderCard,
  credit_card_number: cardMarks.card,
  'destination-card-no': cardMarks.destinationCard,
  cvv2: cardMarks.cvv,
  card_printed_name: cardMarks.holder,
}).toString();

const starts = harness();

const callers = [{ name: 'billing', credentials: [tokenCredential(token)], allow: [everything] }];

/** The audit trails of the current test, and what was exported as traces. */
const trails: string[] = [];
const receivers: RecordingGateway[] = [];
beforeEach(() => [trails, receivers].forEach((list) => list.splice(0)));

function newTrail() {
  const audit = auditIn(starts.folder());
  trails.push(audit.directory);
  return audit;
}

async function newTracing() {
  const receiver = await startReceiver(starts);
  receivers.push(receiver);
  return tracingTo(receiver);
}

async function start(options: Partial<ProxyOptions>): Promise<TestProxy> {
  return await starts.proxy({
    keys: { acme: { controlKey, privateKey: pem } },
    random: () => 0,
    logLevel: 'debug',
    sandbox: { timeouts: { connect: '1s', request: '1s' } },
    ...options,
    config: { callers, audit: newTrail(), tracing: await newTracing(), ...options.config },
  });
}

const asBilling = { Authorization: `Bearer ${token}` };

/** None of these marks in the log, on the pages of the admin port, and in Countersign's own responses. */
async function expectClean(
  proxy: TestProxy,
  responses: readonly HttpResponse[],
  searched = marks,
): Promise<void> {
  await proxy.requestLines(responses.length);
  expect(marksIn(proxy.logText(), searched)).toEqual([]);
  expect(marksIn(await proxy.metrics(), searched)).toEqual([]);
  expect(marksIn(await statusText(proxy), searched)).toEqual([]);
  expect(marksIn(await auditText(proxy, responses.length), searched)).toEqual([]);
  for (const { headers, body } of responses) {
    const all = JSON.stringify(headers) + body;
    const own = headers['content-type'] === 'application/problem+json';
    expect(marksIn(all, own ? searched : keyMarks)).toEqual([]);
  }
}

/** Both status pages, also as a browser that has the token sees them. */
async function statusText(proxy: TestProxy): Promise<string> {
  const open = await proxy.statusPages();
  expect(open).toContain('sandbox');
  await proxy.reload({ callers, admin: { port: 0, ...tokenCredential(token) } });
  const headers = { Authorization: `Basic ${Buffer.from(`operator:${token}`).toString('base64')}` };
  const guarded = await fetch(`${proxy.adminUrl}/status.json`, { headers });
  return open + JSON.stringify([...guarded.headers]) + (await guarded.text());
}

/** The audit trail, once so many requests have ended, and all bytes that were exported as traces. */
async function auditText({ stop }: Pick<TestProxy, 'stop'>, requests: number): Promise<string> {
  await stop();
  const text = trails
    .flatMap(auditFilesIn)
    .map((file) => readFileSync(file, 'utf8'))
    .join('');
  const ended = recordsOf(text).filter(({ audit }) =>
    ['result', 'rejected', 'callback'].includes(String(audit)),
  );
  expect(ended.length).toBeGreaterThanOrEqual(requests);
  const exported = receivers.flatMap((receiver) =>
    receiver.requests.map(({ body }) => body.toString('latin1')),
  );
  return text + exported.join('');
}

it('marks are found in every encoding', () => {
  const card = cardMarks.card;
  const hex = Buffer.from(controlKey).toString('hex');
  for (const text of [
    `x${controlKey}y`,
    encodeURIComponent(controlKey),
    encodeURIComponent(encodeURIComponent(controlKey)),
    hex,
    hex.toUpperCase(),
    Buffer.from(controlKey).toString('base64'),
    ...['', 'a', 'ab', 'abc'].map((before) => Buffer.from(`${before}${controlKey}z`).toString('base64')),
    Buffer.from(`a${controlKey}`).toString('base64url'),
    JSON.stringify({ key: controlKey }),
  ]) {
    expect({ text, found: marksIn(text, { controlKey }).length > 0 }).toEqual({ text, found: true });
  }
  expect(marksIn(`card=${card}`, marks)).toContain('card (plain)');
  // A line without "+" and "/" is its own percent-encoded form as well.
  expect(marksIn(pem, keyMarks)).toEqual(expect.arrayContaining(['pemLine (plain)', 'pemLine (JSON)']));
  expect(marksIn('no marks here', marks)).toEqual([]);
});

/** Everything the gateway received, for a response that contains it. */
const echo = ({ line, headers, body }: RawRequest): string =>
  `${line} ${headers.map(([name, value]) => `${name}: ${value}`).join('; ')} ${body}`;

function responding(bytes: (request: RawRequest) => string): Script {
  return async ({ request, end }) => {
    const received = await request();
    end(received === undefined ? '' : bytes(received));
  };
}

const fieldsWithMarks = (body: string): string =>
  `type=x\n&serial-number=${cardMarks.card}\n&status=${cardMarks.card}\n&error-code=${cardMarks.cvv}\n&${body}`;

describe('no secret leaks if the gateway', () => {
  it.each<[string, Script]>([
    ['is silent', silent],
    ['closes', ({ end }) => end()],
    ['resets', ({ socket, reset }) => void socket.once('data', reset)],
    ['closes after the request', once('')],
    ['sends garbage that holds the request', responding((request) => `${echo(request)}\r\n\r\n`)],
    [
      'sends it as a status',
      responding((request) => `HTTP/1.1 200 ${echo(request)}\r\nContent-Length: 0\r\n\r\n`),
    ],
    ['sends it as an invalid header', responding((request) => `HTTP/1.1 200 OK\r\n${echo(request)}\r\n\r\n`)],
    [
      'sends it as a chunk size',
      responding((r) => `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${echo(r)}\r\n`),
    ],
    ['truncates it', responding((r) => `HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n${echo(r)}`)],
    ['sends it with status 403', responding((request) => httpResponse('403 Forbidden', echo(request)))],
    ['sends it with status 500', responding((request) => httpResponse('500 Oh', echo(request)))],
    ['redirects with it', responding(({ body }) => httpResponse('302 Found', '', [`Location: /?${body}`]))],
    ['sends it as a form', responding(({ body }) => httpResponse('200 OK', fieldsWithMarks(body)))],
    [
      'sends it as JSON',
      responding(({ body }) =>
        httpResponse('200 OK', JSON.stringify({ body }), ['Content-Type: application/json']),
      ),
    ],
    [
      'switches protocols with it',
      responding(({ body }) => `HTTP/1.1 101 ${body}\r\nUpgrade: ${body}\r\nConnection: upgrade\r\n\r\n`),
    ],
  ])('%s', async (_what, script) => {
    const gateway = await starts.gateway([script]);
    const proxy = await start({ gateway: gateway.url });
    const sent = [paths.transfer, paths.balance, paths.status].flatMap((path) =>
      [{}, { Accept: 'application/json' }].map((accept) =>
        proxy.post(path, form, { ...asBilling, ...accept }),
      ),
    );
    await expectClean(proxy, await Promise.all(sent));
    expect(gateway.connections()).toBeGreaterThan(0);
  });

  it('is down, and the traces that were exported have the spans of the request', async () => {
    const proxy = await start({ gateway: `http://127.0.0.1:${closedPort}` });
    await proxy.post(paths.transfer, form, asBilling);
    const text = await auditText(proxy, 1);
    expect(text).toContain('countersign.key.lookup');
    expect(text).toContain('billing');
  });

  it('receives the marks, which shows that the search can find them', async () => {
    const gateway = await starts.gateway([once(httpResponse('200 OK'))]);
    const proxy = await start({ gateway: gateway.url });
    await proxy.post(paths.transfer, form, asBilling);
    const { path: _path, ...sent } = cardMarks;
    expect(new Set(marksIn(gateway.received(), marks).map((found) => found.split(' ')[0]))).toEqual(
      new Set(Object.keys(sent)),
    );
  });

  it.each(['http', 'https'])('is down (%s)', async (scheme) => {
    const proxy = await start({ gateway: `${scheme}://127.0.0.1:${closedPort}` });
    await expectClean(proxy, [await proxy.post(paths.transfer, form, asBilling)]);
  });
});

const callbackPath = '/sandbox/gw/verify-callback/1234';

it.each(['genuine', 'forged'])('no secret leaks of a callback that is %s', async (kind) => {
  const status = 'approved';
  const expected = createHash('sha1').update(`${status}17${cardMarks.orderCard}${controlKey}`).digest('hex');
  const control = kind === 'genuine' ? expected : 'f'.repeat(40);
  const proxy = await start({});
  const response = await proxy.post(
    callbackPath,
    `${form}&status=${status}&orderid=17&control=${control}`,
    asBilling,
  );
  expect(response.body).toContain(kind === 'genuine' ? '"verified"' : '"not-verified"');
  await proxy.requestLines();
  const shown = [JSON.stringify(response.headers), response.body, proxy.logText(), await proxy.metrics()];
  for (const text of [...shown, await statusText(proxy), await auditText(proxy, 1)])
    expect(marksIn(text, { ...marks, expected })).toEqual([]);
});

describe('no secret leaks if a request has', () => {
  const card = cardMarks.card;
  const urlencoded = { 'Content-Type': 'application/x-www-form-urlencoded' };

  it.each<[string, string, string, Record<string, string>]>([
    ['no credentials', paths.transfer, form, {}],
    ['a wrong token', paths.transfer, form, { Authorization: `Bearer ${token}x` }],
    [
      'another scheme',
      paths.transfer,
      form,
      { Authorization: `Basic ${Buffer.from(`u:${token}`).toString('base64')}` },
    ],
    ['an unknown route', `/sandbox/gw/${cardMarks.path}/${card}`, form, asBilling],
    ['an unknown environment', `/${card}/gw/api/v4/transfer/1234`, form, asBilling],
    ['a query', `${paths.transfer}?card=${card}`, form, asBilling],
    ['an endpoint like a card', `/sandbox/gw/api/v4/transfer/${card}`, form, asBilling],
    ['an impossible endpoint', `/sandbox/gw/api/v4/transfer/%20${card}`, form, asBilling],
    ['a form that cannot be decoded', paths.transfer, `${form}&x=%zz${card}`, asBilling],
    ['a parameter of the signature', paths.transfer, `${form}&oauth_token=${card}`, asBilling],
    ['a callback that is cut off', callbackPath, form, asBilling],
    ['two logins', paths.transfer, `${form}&login=${card}`, asBilling],
    ['an impossible login', paths.status, `login=%20${card}&client_orderid=1`, asBilling],
    ['an unknown login', paths.status, `login=mark-in-a-path&client_orderid=1`, asBilling],
    ['a parameter that is too long', paths.balance, `balance-name=${card.repeat(20)}`, asBilling],
    ['another media type', paths.transfer, form, { ...asBilling, 'Content-Type': `text/${card}` }],
    ['an encoding', paths.transfer, form, { ...asBilling, 'Content-Encoding': card }],
    ['a conflicting header', paths.transfer, form, { ...asBilling, 'Countersign-Login': card }],
    ['a form that is far too large', paths.transfer, form.repeat(1000), { ...asBilling, ...urlencoded }],
  ])('%s', async (what, path, body, headers) => {
    const proxy = await start({});
    const response = await proxy.post(path, body, headers);
    expect(response.status).toBeGreaterThanOrEqual(400);
    expect(response.headers['content-type']).toBe('application/problem+json');
    // A login that a caller is allowed to use is named to that caller and in the log.
    const { path: _login, ...others } = marks;
    await proxy.requestLines();
    expect((await proxy.instanceStatus()).failures).toHaveLength(1);
    await expectClean(proxy, [response], what === 'an unknown login' ? others : marks);
  });

  it('bytes that are not HTTP', async () => {
    const proxy = await start({});
    const request = `POST ${paths.transfer} HTTP/1.1\nHost: x\n${token} ${card}\n\n${form}`;
    const { body, ...response } = await proxy.send(request);
    expect(response).toMatchObject({ status: 400, headers: { 'content-type': 'application/problem+json' } });
    await expectClean(proxy, [{ ...response, body: String(body) }]);
  });
});

describe('no secret leaks if there is a problem with the keys:', () => {
  it.each([
    ['a damaged private key', { privateKey: pem.replace(/\n(.{20})/, '\n$1!') }],
    ['a text that is no private key', { privateKey: keyMarks.pemLine }],
    ['an empty control key', { controlKey: '' }],
    ['no key of the kind', {}],
  ])('%s', async (_what, keys) => {
    const proxy = await start({ keys: { acme: keys } });
    const sent = [paths.transfer, paths.balance].map((path) => proxy.post(path, form, asBilling));
    await expectClean(proxy, await Promise.all(sent));
  });

  it('their folder is missing', async () => {
    const proxy = await start({});
    rmSync(proxy.keysFolder, { recursive: true });
    await expectClean(proxy, [await proxy.post(paths.transfer, form, asBilling)]);
  });

  it('they change while requests are rejected', async () => {
    const gateway = await starts.gateway([once(httpResponse('403 Forbidden', 'denied'))]);
    const proxy = await start({ gateway: gateway.url });
    const responses = [await proxy.post(paths.balance, form, asBilling)];
    writeKeys(proxy.keysFolder, 'sandbox', 'acme', { controlKey: `${controlKey}-next` });
    responses.push(await proxy.post(paths.balance, form, asBilling));
    await expectClean(proxy, responses);
  });
});

it('an internal error is logged without its data', async () => {
  const proxy = await start({
    nonce: () => {
      throw Object.assign(new Error(`bug with ${controlKey} ${form}`), { body: form, key: pem });
    },
  });
  const response = await proxy.post(paths.transfer, form, asBilling);
  expect(JSON.parse(response.body)).toMatchObject({ reason: 'internal', outcome: 'not-sent' });
  await expectClean(proxy, [response]);
  expect(proxy.logText()).toContain('internal error');
});

describe('the output of a whole process', () => {
  /** Throws something with secrets in the process, outside of any request. */
  const saboteur = (how: string): string => {
    const text = JSON.stringify(`boom ${controlKey} ${form}\n    at ${token}`);
    const error = `Object.assign(new Error(${text}), { key: ${text}, cause: new Error(${text}) })`;
    const code = `process.on('SIGUSR2', () => setImmediate(() => { ${how.replace('ERROR', error)} }))`;
    return `data:text/javascript,${encodeURIComponent(code)}`;
  };

  it.each([
    ['an uncaught error', 'throw ERROR;'],
    ['an unhandled rejection', 'void Promise.reject(ERROR);'],
    ['a thrown value that is not an Error', 'throw ERROR.key;'],
  ])('contains no secret after %s', async (_what, how) => {
    const gateway = await starts.gateway([once(httpResponse('200 OK', 'status=approved\n')), once('')]);
    const process = await starts.process({
      gateway: gateway.url,
      config: { callers, audit: newTrail(), tracing: await newTracing(), log: { level: 'debug' } },
      keys: { acme: { controlKey, privateKey: pem } },
      nodeOptions: ['--import', saboteur(how)],
    });
    expect((await process.post(paths.transfer, form, asBilling)).status).toBe(200);
    expect((await process.post(paths.transfer, form, asBilling)).status).toBe(502);
    await process.metrics();
    expect(await process.statusPages()).toContain('gateway-reset');
    process.signal('SIGUSR2');
    expect(await process.ended).toBe(1);
    expect(process.stdout()).toContain('uncaught exception, exiting');
    expect(marksIn(process.seen(), marks)).toEqual([]);
    expect(marksIn(await auditText({ stop: async () => true }, 2), marks)).toEqual([]);
  });
});
