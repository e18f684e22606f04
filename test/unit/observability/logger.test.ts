import { readFileSync } from 'node:fs';
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { LogLevel } from '../../../src/config/schema/values.ts';
import { parseKeys } from '../../../src/keys/key.ts';
import { createDebugLog } from '../../../src/observability/debug-log.ts';
import { sampleRejections } from '../../../src/observability/log-sampling.ts';
import { createLogger, type Logger } from '../../../src/observability/logger.ts';
import { createTlsPeers } from '../../../src/observability/tls-peers.ts';
import type { RequestContext } from '../../../src/request-context.ts';
import { codes } from '../../support/runbook.ts';

const bare: RequestContext = { id: 'x', startedAt: 0, outcome: 'not-sent', attempts: 0, durations: {} };
const handshake = { role: 'listener', problem: 'certificate', cause: 'unknown-ca', peer: 'x' } as const;

/** The fields of what is logged. */
function capture(level: LogLevel = 'info') {
  const lines: string[] = [];
  const log = createLogger(level, { write: (line) => void lines.push(line) });
  return { log, lines, entries: () => lines.map((line): Record<string, unknown> => JSON.parse(line)) };
}

function logged(context: RequestContext): Record<string, unknown> {
  const { log, entries } = capture();
  log.requestFinished(context);
  return entries()[0] ?? {};
}

type Unlogged = 'readOnly' | 'keyKind' | 'keyRejected' | 'traceSampled' | 'writtenAttempts';
/** What a line has. A new field of the context has to be in the test below, or left out here. */
type Logged = Required<Omit<RequestContext, Unlogged | 'credential' | 'decision' | 'rejected'>>;
type Full<K extends keyof RequestContext> = Required<NonNullable<RequestContext[K]>>;

describe('the line of a request', () => {
  it('is one line of JSON with every known field, as docs/troubleshooting.md says, and nothing else', () => {
    const target = { environment: 'sandbox', operation: 'order-status', login: 'acme' };
    const ids = { callerRequestId: 'order-7', caller: 'billing', orderId: 'invoice-7', firstRequestId: 'y' };
    const context: Logged = {
      ...bare,
      ...ids,
      ...target,
      traceId: '0af7651916cd43dd8448eb211c80319c',
      statusPath: '/status',
      keyVersion: 7,
      keyFingerprint: 'ab12',
      status: 200,
      gatewayStatus: 200,
      gatewayResult: 'error',
      gatewayErrorCode: '124',
      orderMismatch: 'amount',
      unreachable: 'dns',
      tlsAlert: 'unknown_ca',
      rejection: 'other-key',
      callback: 'verified',
      reason: 'duplicate-payment',
      limit: 'key reads',
      outcome: 'answered',
      attempts: 2,
      serialNumber: '00000000-0000-0000-0000-0000005b2e5d',
    };
    const jwt = { credential: 'jwt', tokenHash: 'a', jwtProblem: 'jwt-key', jwtSubject: 'b' } as const;
    const certificate = { certificateSubject: 'c', certificateIssuer: 'd', certificateProblem: 'e' };
    const rejected: Full<'rejected'> = { ...target, ...jwt, ...certificate, peer: 'x', method: 'POST' };
    const durations: Full<'durations'> = { total: 0.2501234, claim: 2, key: 0.001, sign: 0.0031, gateway: 1 };
    const { log, lines, entries } = capture();
    const more = { keyKind: 'private_key', body: 'cvv2=123' } as const;
    log.requestFinished({ ...context, ...more, durations, rejected });
    expect(lines.map((line) => line.match(/\n/g))).toEqual([['\n']]);
    const { id, startedAt: _, durations: __, ...fields } = context;
    const times = { totalMs: 250.123, claimMs: 2_000, keyMs: 1, signMs: 3.1, gatewayMs: 1_000 };
    const shown = { requestId: id, ...fields, ...rejected, ...times };
    expect(entries()[0]).toEqual({
      level: 'warn',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      msg: 'request completed',
      ...shown,
    });
    const page = readFileSync('docs/troubleshooting.md', 'utf8');
    const [, ofAll = '', ofRejected = ''] = page.split(/^## Search the log$|^### Who /m);
    const cells = ofRejected.match(/^\| `.*?\|/gm) ?? [];
    expect(new Set(codes(ofAll.split('.')[0] + cells.join()))).toEqual(new Set(Object.keys(shown)));
    expect(Object.keys(logged(bare)).sort().join()).toBe('attempts,level,msg,outcome,requestId,time');
  });

  it.each<[string, Partial<RequestContext>, boolean]>([
    ['a payment of unknown outcome', { readOnly: false, outcome: 'unknown' }, true],
    ['a payment that was sent before', { reason: 'duplicate-payment', firstRequestId: 'y' }, true],
    ['any other', { readOnly: false, outcome: 'answered' }, false],
  ])('says how to query %s', (_what, fields, isShown) => {
    const line = logged({ ...bare, orderId: 'invoice-7', statusPath: '/status', ...fields });
    expect(['orderId' in line, 'statusPath' in line]).toEqual([isShown, isShown]);
  });

  it.each<[string, Partial<RequestContext>, string]>([
    ['a gateway response', { status: 200, outcome: 'answered' }, 'info'],
    ['a client error', { status: 400, reason: 'malformed-form' }, 'info'],
    ['a 403 of the gateway', { status: 403, gatewayStatus: 403, outcome: 'answered' }, 'warn'],
    ['an unknown caller', { status: 401, reason: 'caller-unknown' }, 'warn'],
    ['a denied caller', { status: 403, reason: 'not-allowed' }, 'warn'],
    ['a caller above its limit', { status: 429, reason: 'caller-limit' }, 'warn'],
    ['a failing gateway', { status: 500, gatewayStatus: 500, outcome: 'answered' }, 'warn'],
    ['no key', { status: 503, reason: 'key-source-unavailable' }, 'warn'],
    ['an unknown outcome', { status: 504, reason: 'gateway-timeout', outcome: 'unknown' }, 'error'],
    ['an internal error', { status: 500, reason: 'internal' }, 'error'],
    ['a payment that was sent before', { reason: 'duplicate-payment', outcome: 'unknown' }, 'warn'],
    ['a response about another order', { status: 200, orderMismatch: 'order-id' }, 'error'],
    ['a response with another amount', { status: 200, orderMismatch: 'amount' }, 'warn'],
    ['a forged callback', { status: 200, callback: 'not-verified' }, 'warn'],
  ])('has the level of what happened: %s', (_name, fields, level) => {
    expect(logged({ ...bare, ...fields })['level']).toBe(level);
  });
});

it.each<[string, (log: Logger) => void, boolean]>([
  ['an accepted query', (log) => log.requestFinished({ ...bare, readOnly: true }), false],
  ['a payment', (log) => log.requestFinished({ ...bare, readOnly: false }), true],
  ['a rejected request', (log) => log.requestFinished({ ...bare, reason: 'caller-unknown' }), true],
  ['a limited one', (log) => log.requestFinished({ ...bare, reason: 'caller-limit' }), false],
  ['a message', (log) => log.message('info', 'started'), true],
  ['an internal error', (log) => log.internalError(bare, new Error('x')), true],
  ['a crash', (log) => log.crash('main', new Error('x')), true],
  ['a failed handshake', (log) => log.handshakeFailed(handshake), true],
])('the line of %s is urgent or may be gathered', (_line, write, urgent) => {
  const events: string[] = [];
  write(createLogger('info', { write: () => events.push('line'), hurry: () => events.push('hurry') }));
  expect(events).toEqual(urgent ? ['line', 'hurry'] : ['line']);
});

it('a message has a level, a text and plain fields, and none is written below the configured level', () => {
  const { log, entries } = capture();
  log.message('warn', 'some message', { problems: 2 });
  log.handshakeFailed(handshake);
  expect(entries()).toMatchObject([
    { level: 'warn', msg: 'some message', problems: 2 },
    { level: 'warn', msg: 'TLS handshake failed', cause: 'unknown-ca' },
  ]);
  const quiet = capture('error');
  quiet.log.requestFinished({ ...bare, status: 503, reason: 'overloaded' });
  quiet.log.message('warn', 'quiet');
  expect(quiet.lines).toEqual([]);
  for (const level of ['info', 'warn', 'error', 'silent'] as const)
    expect(capture(level).log.debug).toBeUndefined();
});

it.each<[string, unknown, string]>([
  ['by its name', Object.assign(new RangeError('4111111111111111'), { body: 'key=s3cret' }), 'RangeError'],
  ['without its message, be it like a stack', new Error('x\n    at 4111111111111111 (/x:1:1)'), 'Error'],
  ['without its cause', new Error('x', { cause: new Error('4111111111111111') }), 'Error'],
  ['by its type if it is none', 'key=s3cret', 'thrown string'],
  ['as Error if its name may be data', Object.assign(new Error('x'), { name: 'key=s3cret' }), 'Error'],
])('an internal error is logged %s', (_how, error, name) => {
  const { log, lines, entries } = capture();
  log.internalError(bare, error);
  expect(lines.join('')).not.toMatch(/4111111111111111|s3cret/);
  expect(entries()[0]).toMatchObject({ level: 'error', msg: 'internal error', requestId: 'x', error: name });
  const frame = expect.stringMatching(/^at .*logger\.test\.ts:\d+:\d+\)?$/);
  if (error instanceof Error) expect(entries()[0]?.['stack']).toEqual(expect.arrayContaining([frame]));
});

it('a debug line holds only what is named for its event, whatever else the event holds', () => {
  const mark = 'cvv2=123';
  const login = { environment: 'sandbox', login: 'acme', mark };
  const route = { environment: 'sandbox', operation: 'transfer', mark };
  const { log: logger, lines, entries } = capture('debug');
  const log = createDebugLog(logger);
  const [key] = parseKeys({ control_key: mark }, { version: 7 });
  if (key === undefined || !('key' in key)) throw new TypeError('the key cannot be used');
  const credential = { kind: 'jwt', issuer: 'idp', subject: 'shop', token: mark } as const;
  const facts = { ...bare, ...route, body: mark, caller: 'billing', readOnly: false, login: 'acme' };
  const failure = { reason: 'gateway-reset', written: true, stalePool: false, cause: mark };
  log?.forRequest('id-1', () => {
    log.callerAuthenticated('billing', credential);
    log.requestRouted(facts);
    log.keySelected(login, 'transfer', key);
    log.keysRefreshed(login);
    log.attemptFailed('transfer', failure);
    log.retryScheduled('transfer', 12.7);
  });
  log?.observer.gatewayResponded?.({ ...route, status: 200, seconds: 0.5 });
  log?.observer.gatewayUnreachable?.({ ...route, cause: 'dns' });
  log?.observer.currentKeyChanged?.(login, 'control_key', 7, 6);
  expect(lines.join('')).not.toContain('cvv2');
  expect(entries()).toMatchObject([
    { level: 'debug', requestId: 'id-1', credential: 'jwt', issuer: 'idp', subject: 'shop' },
    { requestId: 'id-1', caller: 'billing', operation: 'transfer', readOnly: false, login: 'acme' },
    { msg: 'key selected', keyKind: 'control_key', keyVersion: 7 },
    { msg: 'keys refreshed after a rejection', login: 'acme' },
    { reason: 'gateway-reset', written: true, stalePool: false },
    { delayMs: 13 },
    { status: 200, ms: 500 },
    { cause: 'dns' },
    { keyKind: 'control_key', from: 7, to: 6 },
  ]);
});

describe('lines about strangers', () => {
  let now: number;
  let lines: string[];
  let suppressed: number;
  let log: Logger;
  beforeEach(() => {
    [now, suppressed, lines] = [0, 0, []];
    const target: Logger = {
      requestFinished: ({ reason }) => lines.push(`request ${reason}`),
      handshakeFailed: ({ cause }) => lines.push(`handshake ${cause}`),
      internalError: () => {},
      crash: () => {},
      message: (_level, message, fields) => lines.push(`${message} ${JSON.stringify(fields)}`),
    };
    log = sampleRejections(target, { monotonic: () => now, suppressed: () => (suppressed += 1) });
  });

  function write(count: number, fields: Partial<RequestContext>): void {
    for (let nth = 0; nth < count; nth += 1) log.requestFinished({ ...bare, ...fields });
  }

  it.each<[Partial<RequestContext>, boolean]>([
    [{ reason: 'method-not-allowed' }, true],
    // A 503, which is our fault, but anybody can cause these.
    [{ reason: 'issuer-unavailable' }, true],
    [{ reason: 'pipelined' }, true],
    [{ reason: 'shutting-down' }, false],
    [{ caller: 'billing', reason: 'login-missing' }, false],
  ])('are limited, and only these: %j: %j', (fields, isLimited) => {
    write(250, fields);
    expect([lines.length, suppressed]).toEqual(isLimited ? [100, 150] : [250, 0]);
  });

  it('are written again a second later, with the number of suppressed ones', () => {
    write(150, { reason: 'bad-request' });
    now = 1000;
    write(50, { reason: 'bad-request' });
    expect(lines.length).toBe(100 + 1 + 20);
    expect(lines[100]).toBe('rejected requests without a log line {"count":50}');
    now = 1_000_000;
    write(250, { reason: 'bad-request' });
    expect(lines.length).toBe(121 + 1 + 100);
  });

  it('have one limit with those of failed TLS handshakes', () => {
    for (let nth = 0; nth < 60; nth += 1) log.handshakeFailed(handshake);
    write(60, { reason: 'caller-unknown' });
    expect([lines.length, suppressed, lines[0]]).toEqual([100, 20, 'handshake unknown-ca']);
  });
});

describe('lines of TLS connections', () => {
  const session = { version: 'TLSv1.2', cipher: 'ECDHE-RSA-AES128-GCM-SHA256' };
  const newest = { version: 'TLSv1.3', cipher: 'TLS_AES_256_GCM_SHA384' };
  let now: number;
  let lines: object[];
  let counted: unknown[][];
  let peers: ReturnType<typeof createTlsPeers>;
  beforeEach(() => {
    [now, lines, counted] = [0, [], []];
    peers = createTlsPeers({
      monotonic: () => now,
      log: {
        message: (level, msg, fields) => void lines.push({ level, msg, ...fields }),
        handshakeFailed: (failure) => void lines.push({ msg: 'sampled', ...failure }),
      },
      metrics: {
        tlsConnected: (...event) => void counted.push(event),
        tlsFailed: (...event) => void counted.push(event),
      },
    });
  });

  it('are one for each new combination of version, suite and old client, and all connections are counted', () => {
    const observer = peers.clients('listener');
    for (const peer of ['10.0.0.1', '10.0.0.2', '10.0.0.1']) observer.connected({ ...session, peer });
    // They use up nothing of the limit.
    for (let nth = 0; nth < 100; nth += 1) observer.connected({ ...session, peer: '10.0.0.1' });
    for (const peer of ['10.0.0.3', '10.0.0.4']) observer.connected({ ...newest, peer });
    const line = { level: 'info', msg: 'first TLS connection of this kind', role: 'listener' };
    expect(lines).toEqual([
      { ...line, ...session, peer: '10.0.0.1' },
      { ...line, ...session, peer: '10.0.0.2' },
      { ...line, ...newest },
    ]);
    expect(counted).toHaveLength(105);
  });

  it('are limited for ten thousand addresses, and a later one has its line', () => {
    const observer = peers.clients('listener');
    for (let nth = 0; nth < 10_000; nth += 1)
      observer.connected({ ...session, peer: `10.0.${nth >> 8}.${nth & 255}` });
    expect([lines.length, counted.length]).toEqual([20, 10_000]);
    now += 60_000;
    observer.connected({ ...session, peer: '192.0.2.1' });
    expect(lines.at(-1)).toMatchObject({ peer: '192.0.2.1' });
  });

  it('are one for a failure with a server, and one each five minutes, by what it is about', () => {
    const observer = peers.servers({ role: 'gateway', environment: 'sandbox' });
    const version = { problem: 'version', cause: 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION' } as const;
    const certificate = { problem: 'certificate', cause: 'CERT_HAS_EXPIRED' } as const;
    for (let nth = 0; nth < 100; nth += 1) observer.failed(nth % 2 === 0 ? version : certificate);
    const line = { level: 'warn', msg: 'TLS handshake failed', role: 'gateway', environment: 'sandbox' };
    const both = [
      { ...line, ...version },
      { ...line, ...certificate },
    ];
    expect(lines).toEqual(both);
    now += 299_999;
    observer.failed(version);
    expect(lines).toHaveLength(2);
    now += 1;
    observer.failed(version);
    expect(lines).toEqual([...both, { ...line, ...version }]);
    expect(counted).toHaveLength(102);
  });

  it('about a failure with a client are left to the limit of lines about strangers', () => {
    const failure = { problem: 'cipher', cause: 'no-shared-cipher', peer: '10.0.0.1' } as const;
    peers.clients('admin').failed(failure);
    expect(lines).toEqual([{ msg: 'sampled', role: 'admin', ...failure }]);
    expect(counted).toEqual([[{ role: 'admin' }, 'cipher']]);
  });
});
