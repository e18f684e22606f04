import { describe, expect, it } from '@jest/globals';
import type { LogLevel } from '../../../src/config/schema/values.ts';
import { createLogger, type Logger } from '../../../src/observability/logger.ts';
import type { RequestContext } from '../../../src/request-context.ts';

const whole: RequestContext = {
  id: '0d9f1f0a-0b7e-4f6e-9a3c-6f0b5a1f2c11',
  traceId: '0af7651916cd43dd8448eb211c80319c',
  startedAt: 12,
  caller: 'billing',
  environment: 'sandbox',
  operation: 'order-status',
  login: 'acme',
  keyVersion: 7,
  keyKind: 'private_key',
  keyFingerprint: 'ab12',
  status: 200,
  gatewayStatus: 200,
  gatewayResult: 'error',
  gatewayErrorCode: '124',
  unreachable: 'dns',
  rejection: 'other-key',
  outcome: 'answered',
  attempts: 2,
  serialNumber: '00000000-0000-0000-0000-0000005b2e5d',
  durations: { total: 0.2501234, key: 0.001, sign: 0.0031, gateway: 0.245 },
};

const bare: RequestContext = { id: 'x', startedAt: 0, outcome: 'not-sent', attempts: 0, durations: {} };

function capture(level: LogLevel = 'info') {
  const lines: string[] = [];
  const log = createLogger(level, { write: (line) => void lines.push(line) });
  const parse = (line: string): Record<string, unknown> => JSON.parse(line);
  return { log, lines, entries: () => lines.map(parse) };
}

function logged(context: RequestContext): Record<string, unknown> {
  const { log, entries } = capture();
  log.requestFinished(context);
  return entries()[0] ?? {};
}

it.each([
  [
    'an accepted read-only request',
    (log: Logger) => log.requestFinished({ ...whole, readOnly: true }),
    false,
  ],
  ['a payment', (log: Logger) => log.requestFinished({ ...whole, readOnly: false }), true],
  ['a rejected request', (log: Logger) => log.requestFinished({ ...bare, reason: 'caller-unknown' }), true],
  ['a message', (log: Logger) => log.message('info', 'started'), true],
  ['an internal error', (log: Logger) => log.internalError(bare, new Error('x')), true],
  ['a crash', (log: Logger) => log.crash('main', new Error('x')), true],
  [
    'a failed handshake',
    (log: Logger) =>
      log.handshakeFailed({ role: 'listener', problem: 'certificate', cause: 'unknown-ca', peer: 'x' }),
    true,
  ],
])('the line of %s is urgent or may be gathered', (_line, write, urgent) => {
  const events: string[] = [];
  write(createLogger('info', { write: () => events.push('line'), hurry: () => events.push('hurry') }));
  expect(events).toEqual(urgent ? ['line', 'hurry'] : ['line']);
});

describe('the access line of a request', () => {
  it('is one line of JSON with every known field, durations in milliseconds', () => {
    const { log, lines, entries } = capture();
    log.requestFinished(whole);
    expect(lines).toHaveLength(1);
    expect(lines[0]?.match(/\n/g)).toHaveLength(1);
    expect(entries()[0]).toEqual({
      level: 'info',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      msg: 'request completed',
      requestId: whole.id,
      traceId: whole.traceId,
      caller: 'billing',
      environment: 'sandbox',
      operation: 'order-status',
      login: 'acme',
      keyVersion: 7,
      keyFingerprint: 'ab12',
      status: 200,
      gatewayStatus: 200,
      gatewayResult: 'error',
      gatewayErrorCode: '124',
      unreachable: 'dns',
      rejection: 'other-key',
      outcome: 'answered',
      attempts: 2,
      totalMs: 250.123,
      keyMs: 1,
      signMs: 3.1,
      gatewayMs: 245,
      serialNumber: whole.serialNumber,
    });
  });

  it('omits unknown fields', () => {
    expect(Object.keys(logged(bare)).sort()).toEqual([
      'attempts',
      'level',
      'msg',
      'outcome',
      'requestId',
      'time',
    ]);
  });

  it('omits fields that are not in the allow-list', () => {
    expect(JSON.stringify(logged({ ...bare, body: 'cvv2=123' } as RequestContext))).not.toContain('cvv2');
  });
});

describe('the level of an access line', () => {
  it.each<[string, Partial<RequestContext>, string]>([
    ['a gateway response', { status: 200, outcome: 'answered' }, 'info'],
    ['a client error', { status: 400, reason: 'malformed-form' }, 'info'],
    ['a 403 of the gateway', { status: 403, gatewayStatus: 403, outcome: 'answered' }, 'warn'],
    ['a 401 of the gateway', { status: 401, gatewayStatus: 401, outcome: 'answered' }, 'warn'],
    ['an unknown caller', { status: 401, reason: 'caller-unknown' }, 'warn'],
    ['a denied caller', { status: 403, reason: 'not-allowed' }, 'warn'],
    ['a failing gateway', { status: 500, gatewayStatus: 500, outcome: 'answered' }, 'warn'],
    ['no key', { status: 503, reason: 'key-source-unavailable' }, 'warn'],
    ['an unknown outcome', { status: 504, reason: 'gateway-timeout', outcome: 'unknown' }, 'error'],
    ['an internal error', { status: 500, reason: 'internal' }, 'error'],
  ])('of %s', (_name, fields, level) => {
    expect(logged({ ...bare, ...fields }).level).toBe(level);
  });

  it('below the configured one is not written', () => {
    const { log, lines } = capture('error');
    log.requestFinished({ ...bare, status: 503, reason: 'overloaded' });
    log.message('warn', 'quiet');
    expect(lines).toEqual([]);
  });
});

describe('an internal error', () => {
  it('is logged by name and stack frames, without its message, its fields or its cause', () => {
    const { log, lines, entries } = capture();
    const error = Object.assign(
      new RangeError('bad card 4111111111111111\n    at 4111111111111111 (/x:1:1)'),
      {
        body: 'cvv2=123',
        cause: new Error('4111111111111111'),
      },
    );
    log.internalError(whole, error);
    expect(lines.join('')).not.toMatch(/4111111111111111|cvv2/);
    expect(entries()[0]).toMatchObject({
      level: 'error',
      msg: 'internal error',
      requestId: whole.id,
      error: 'RangeError',
      stack: expect.arrayContaining([expect.stringMatching(/^at .*logger\.test\.ts:\d+:\d+\)?$/)]),
    });
  });

  it('is logged by type if the thrown value is not an Error', () => {
    const { log, lines, entries } = capture();
    log.internalError(bare, 'control-key');
    expect(entries()[0]).toMatchObject({ error: 'thrown string' });
    expect(lines.join('')).not.toContain('control-key');
  });

  it('with data in its name is logged as Error', () => {
    const { log, entries } = capture();
    log.internalError(bare, Object.assign(new Error('x'), { name: 'key=s3cret' }));
    expect(entries()[0]).toMatchObject({ error: 'Error' });
  });
});

describe('a debug line', () => {
  it('is absent at every other level', () => {
    for (const level of ['info', 'warn', 'error', 'silent'] as const)
      expect(capture(level).log.debug).toBeUndefined();
  });
});

it('a message has a level, a text and plain fields', () => {
  const { log, entries } = capture();
  log.message('warn', 'some message', { problems: 2 });
  expect(entries()[0]).toMatchObject({ level: 'warn', msg: 'some message', problems: 2 });
});
