import { generateKeyPairSync } from 'node:crypto';
import { rmSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { everything, tokenCredential } from '../support/config.ts';
import { closedPort, once, type RawRequest, reply, type Script, silent } from '../support/faulty-gateway.ts';
import { type HttpResponse, paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { type Marks, marksIn } from '../support/secret-canaries.ts';
import { type ProxyOptions, type TestProxy, writeKeys } from '../support/service.ts';

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
const { d = '', p = '', q = '' } = privateKey.export({ format: 'jwk' });
const controlKey = 'mark+CONTROL/key=4711';
const token = 'mark-TOKEN-of-a-caller-0815';

/** What belongs to Countersign and its callers: it must not even be in an answer. */
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
  cvv: 'cvv-90417731',
  holder: 'Mark Cardholder',
  path: 'mark-in-a-path',
} satisfies Marks;
const marks: Marks = { ...keyMarks, ...cardMarks };

const form = new URLSearchParams({
  login: 'acme',
  client_orderid: 'invoice-1',
  credit_card_number: cardMarks.card,
  'destination-card-no': cardMarks.destinationCard,
  cvv2: cardMarks.cvv,
  card_printed_name: cardMarks.holder,
}).toString();

const starts = harness();

const callers = [{ name: 'billing', credentials: [tokenCredential(token)], allow: [everything] }];

async function start(options: Partial<ProxyOptions>): Promise<TestProxy> {
  const proxy = await starts.proxy({
    keys: { acme: { controlKey, privateKey: pem } },
    random: () => 0,
    logLevel: 'debug',
    sandbox: { timeouts: { connect: '100ms', request: '250ms' } },
    ...options,
    config: { callers, ...options.config },
  });
  return proxy;
}

const asBilling = { Authorization: `Bearer ${token}` };

/** Nothing in the log and on the metrics page, and nothing in what Countersign itself answered. */
async function expectClean(proxy: TestProxy, answers: readonly HttpResponse[]): Promise<void> {
  await proxy.requestLines(answers.length);
  expect(marksIn(proxy.logText(), marks)).toEqual([]);
  expect(marksIn(await proxy.metrics(), marks)).toEqual([]);
  for (const { headers, body } of answers) {
    const all = JSON.stringify(headers) + body;
    const own = headers['content-type'] === 'application/problem+json';
    expect(marksIn(all, own ? marks : keyMarks)).toEqual([]);
  }
}

it('marks are found in every disguise', () => {
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
  expect(marksIn('nothing of the kind', marks)).toEqual([]);
});

/** All that the gateway got, in places where it may come back. */
const echo = ({ line, headers, body }: RawRequest): string =>
  `${line} ${headers.map(([name, value]) => `${name}: ${value}`).join('; ')} ${body}`;

function answering(bytes: (request: RawRequest) => string): Script {
  return async ({ request, end }) => {
    const received = await request();
    end(received === undefined ? '' : bytes(received));
  };
}

const fieldsWithMarks = (body: string): string =>
  `type=x\n&serial-number=${cardMarks.card}\n&status=${cardMarks.card}\n&error-code=${cardMarks.cvv}\n&${body}`;

describe('whatever the gateway does', () => {
  it.each<[string, Script]>([
    ['is silent', silent],
    ['closes', ({ end }) => end()],
    ['resets', ({ socket, reset }) => void socket.once('data', reset)],
    ['closes after the request', once('')],
    ['sends garbage that holds the request', answering((request) => `${echo(request)}\r\n\r\n`)],
    [
      'sends it as a status',
      answering((request) => `HTTP/1.1 200 ${echo(request)}\r\nContent-Length: 0\r\n\r\n`),
    ],
    ['sends it as an invalid header', answering((request) => `HTTP/1.1 200 OK\r\n${echo(request)}\r\n\r\n`)],
    [
      'sends it as a chunk size',
      answering((r) => `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${echo(r)}\r\n`),
    ],
    ['breaks off within it', answering((r) => `HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n${echo(r)}`)],
    ['answers 403 with it', answering((request) => reply('403 Forbidden', echo(request)))],
    ['answers 500 with it', answering((request) => reply('500 Oh', echo(request)))],
    ['redirects with it', answering(({ body }) => reply('302 Found', '', [`Location: /?${body}`]))],
    ['answers a form with it', answering(({ body }) => reply('200 OK', fieldsWithMarks(body)))],
    [
      'answers JSON with it',
      answering(({ body }) => reply('200 OK', JSON.stringify({ body }), ['Content-Type: application/json'])),
    ],
    [
      'switches protocols with it',
      answering(({ body }) => `HTTP/1.1 101 ${body}\r\nUpgrade: ${body}\r\nConnection: upgrade\r\n\r\n`),
    ],
  ])('it %s', async (_what, script) => {
    const gateway = await starts.gateway([script]);
    const proxy = await start({ gateway: gateway.url });
    const answers = [];
    for (const path of [paths.transfer, paths.balance, paths.status]) {
      answers.push(await proxy.post(path, form, asBilling));
      answers.push(await proxy.post(path, form, { ...asBilling, Accept: 'application/json' }));
    }
    await expectClean(proxy, answers);
    expect(gateway.connections()).toBeGreaterThan(0);
  });

  it('what is searched for has been there: the gateway got it', async () => {
    const gateway = await starts.gateway([once(reply('200 OK'))]);
    const proxy = await start({ gateway: gateway.url });
    await proxy.post(paths.transfer, form, asBilling);
    const { path: _path, ...sent } = cardMarks;
    expect(new Set(marksIn(gateway.received(), marks).map((found) => found.split(' ')[0]))).toEqual(
      new Set(Object.keys(sent)),
    );
  });

  it.each(['http', 'https'])('it is not there (%s)', async (scheme) => {
    const proxy = await start({ gateway: `${scheme}://127.0.0.1:${closedPort}` });
    await expectClean(proxy, [await proxy.post(paths.transfer, form, asBilling)]);
  });
});

describe('whatever is wrong with a request', () => {
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
    ['an impossible endpoint', `/sandbox/gw/api/v4/transfer/%20${card}`, form, asBilling],
    ['a form that cannot be decoded', paths.transfer, `${form}&x=%zz${card}`, asBilling],
    ['a parameter of the signature', paths.transfer, `${form}&oauth_token=${card}`, asBilling],
    ['two logins', paths.transfer, `${form}&login=${card}`, asBilling],
    ['an impossible login', paths.status, `login=%20${card}&client_orderid=1`, asBilling],
    ['an unknown login', paths.status, `login=mark-in-a-path&client_orderid=1`, asBilling],
    ['a parameter too long', paths.balance, `balance-name=${card.repeat(20)}`, asBilling],
    ['another media type', paths.transfer, form, { ...asBilling, 'Content-Type': `text/${card}` }],
    ['an encoding', paths.transfer, form, { ...asBilling, 'Content-Encoding': card }],
    ['a conflicting header', paths.transfer, form, { ...asBilling, 'Countersign-Login': card }],
    ['far too much', paths.transfer, form.repeat(1000), { ...asBilling, ...urlencoded }],
  ])('such as %s', async (what, path, body, headers) => {
    const proxy = await start({});
    const answer = await proxy.post(path, body, headers);
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.headers['content-type']).toBe('application/problem+json');
    // A login that a caller is allowed to use is named to that caller and in the log.
    const { path: _login, ...others } = marks;
    const searched = what === 'an unknown login' ? others : marks;
    await proxy.requestLines();
    expect(marksIn(JSON.stringify(answer.headers) + answer.body, searched)).toEqual([]);
    expect(marksIn(proxy.logText(), searched)).toEqual([]);
    expect(marksIn(await proxy.metrics(), searched)).toEqual([]);
  });

  it('such as bytes that are not HTTP', async () => {
    const proxy = await start({});
    const request = `POST ${paths.transfer} HTTP/1.1
Host: x
${token} ${card}

${form}`;
    const { status, headers, body } = await proxy.ask(request);
    expect(status).toBe(400);
    expect(
      marksIn(JSON.stringify(headers) + body.toString() + proxy.logText() + (await proxy.metrics()), marks),
    ).toEqual([]);
  });
});

describe('whatever is wrong with the keys', () => {
  it.each([
    ['a damaged private key', { privateKey: pem.replace(/\n(.{20})/, '\n$1!') }],
    ['a text that is no private key', { privateKey: keyMarks.pemLine }],
    ['an empty control key', { controlKey: '' }],
    ['no key of the kind', {}],
  ])('%s', async (_what, keys) => {
    const proxy = await start({ keys: { acme: keys } });
    const answers = [];
    for (const path of [paths.transfer, paths.balance]) {
      answers.push(await proxy.post(path, form, asBilling));
    }
    await expectClean(proxy, answers);
  });

  it('their folder is gone', async () => {
    const proxy = await start({});
    rmSync(proxy.keysFolder, { recursive: true });
    await expectClean(proxy, [await proxy.post(paths.transfer, form, asBilling)]);
  });

  it('they change while requests are refused', async () => {
    const gateway = await starts.gateway([once(reply('403 Forbidden', 'denied'))]);
    const proxy = await start({ gateway: gateway.url });
    const answers = [await proxy.post(paths.balance, form, asBilling)];
    writeKeys(proxy.keysFolder, 'sandbox', 'acme', { controlKey: `${controlKey}-next` });
    answers.push(await proxy.post(paths.balance, form, asBilling));
    await expectClean(proxy, answers);
  });
});

it('a defect is told without what it held', async () => {
  const proxy = await start({
    nonce: () => {
      throw Object.assign(new Error(`defect with ${controlKey} ${form}`), { body: form, key: pem });
    },
  });
  const answer = await proxy.post(paths.transfer, form, asBilling);
  expect(JSON.parse(answer.body)).toMatchObject({ reason: 'internal', outcome: 'not-sent' });
  await expectClean(proxy, [answer]);
  expect(proxy.logText()).toContain('internal error');
});

describe('the output of a whole process', () => {
  /** Throws in the process, from outside of any request, something that holds what must not be printed. */
  const saboteur = (how: string): string => {
    const text = JSON.stringify(`boom ${controlKey} ${form}\n    at ${token}`);
    const error = `Object.assign(new Error(${text}), { key: ${text}, cause: new Error(${text}) })`;
    const code = `process.on('SIGUSR2', () => setImmediate(() => { ${how.replace('ERROR', error)} }))`;
    return `data:text/javascript,${encodeURIComponent(code)}`;
  };

  it.each([
    ['an error that nobody catches', 'throw ERROR;'],
    ['a rejection that nobody catches', 'void Promise.reject(ERROR);'],
    ['something thrown that is no error', 'throw ERROR.key;'],
  ])('holds none of it after %s', async (_what, how) => {
    const gateway = await starts.gateway([once(reply('200 OK', 'status=approved\n')), once('')]);
    const process = await starts.process({
      gateway: gateway.url,
      config: { callers, log: { level: 'debug' } },
      keys: { acme: { controlKey, privateKey: pem } },
      nodeOptions: ['--import', saboteur(how)],
    });
    expect((await process.post(paths.transfer, form, asBilling)).status).toBe(200);
    expect((await process.post(paths.transfer, form, asBilling)).status).toBe(502);
    await process.metrics();
    process.signal('SIGUSR2');
    expect(await process.ended).toBe(1);
    expect(process.stdout()).toContain('uncaught exception, exiting');
    expect(marksIn(process.seen(), marks)).toEqual([]);
  });
});
