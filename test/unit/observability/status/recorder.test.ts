import { beforeEach, describe, expect, it } from '@jest/globals';
import { createStatusRecorder, type StatusRecorder } from '../../../../src/observability/status/recorder.ts';
import type { RequestContext } from '../../../../src/request-context.ts';

const loaded = (environments: string[], callers: string[], digest = 'first') => ({
  config: {
    environments: Object.fromEntries(environments.map((name) => [name, {}])),
    callers: callers.map((name) => ({ name })),
  },
  digest,
});
const started = loaded(['sandbox', 'production'], ['billing', 'shop']);
const noon = Date.UTC(2026, 0, 1, 12);
/** @param milliseconds since noon */
const time = (milliseconds: number): string => new Date(noon + milliseconds).toISOString();

/** Monotonic, milliseconds. */
let now: number;
let recorder: StatusRecorder;
beforeEach(() => {
  now = 0;
  recorder = createStatusRecorder(started, { clock: () => noon + now, monotonic: () => now });
});

function finish(fields: Partial<RequestContext> = {}): void {
  recorder.requestFinished({
    id: 'id-1',
    startedAt: now - 20,
    environment: 'sandbox',
    operation: 'transfer',
    caller: 'billing',
    status: 200,
    gatewayStatus: 200,
    outcome: 'answered',
    attempts: 1,
    durations: { total: 0.02 },
    ...fields,
  });
}

const unrouted = { id: 'id-1', startedAt: 0, outcome: 'not-sent', attempts: 0, durations: {} } as const;

const response = { environment: 'sandbox', operation: 'transfer', status: 200, seconds: 0.1 };

describe('an environment', () => {
  it('has the requests, responses and rejections of its last minute, and the clock skew', () => {
    now = 10_000;
    finish();
    finish({ environment: 'production' });
    finish({ gatewayStatus: 403 });
    finish({ gatewayStatus: 401 });
    finish({ rejection: 'other-key' });
    recorder.gatewayResponded({ ...response, clockSkew: -2 });
    expect(recorder.environment('sandbox')).toMatchObject({
      requestsPerSecond: 0.4,
      rejectedShare: 0.5,
      failedShare: 0,
      latency: { p50: expect.closeTo(0.02, 2) },
      clockSkew: -2,
    });
    expect(recorder.environment('production').clockSkew).toBeNull();
  });

  it('fails altogether while every request of the last 4 s does, but for those of a wrong caller', () => {
    const allFail = () => recorder.environment('sandbox').allFail;
    for (let count = 0; count < 1_000; count += 1) finish();
    now = 4_000;
    expect(allFail()).toBe(false);
    finish({ status: 400, reason: 'parameter-invalid', outcome: 'not-sent' });
    expect(allFail()).toBe(false);
    finish({ status: 403, gatewayStatus: 403, rejection: 'current-key' });
    // Which needs no gateway.
    const verified = { callback: 'verified', outcome: 'answered', environment: 'sandbox' } as const;
    recorder.requestFinished({ ...unrouted, ...verified, startedAt: now });
    expect(allFail()).toBe(true);
    finish({ status: 404, gatewayStatus: 404 });
    expect(allFail()).toBe(false);
    now = 8_000;
    finish({ status: 502, reason: 'gateway-unreachable', unreachable: 'dns' });
    expect(allFail()).toBe(true);
    now = 12_000;
    expect(allFail()).toBe(false);
  });

  it('that the configuration does not have is not recorded', () => {
    finish({ environment: 'elsewhere' });
    recorder.gatewayResponded({ ...response, environment: 'elsewhere' });
    expect(recorder.environment('elsewhere')).toMatchObject({ requestsPerSecond: 0, rejectedShare: null });
  });
});

describe('a caller', () => {
  it('has its requests, those that were denied or too many, and the last one', () => {
    finish();
    now = 5_000;
    finish({ status: 403, reason: 'not-allowed', outcome: 'not-sent' });
    for (let count = 0; count < 2; count += 1)
      finish({ status: 429, reason: 'caller-limit', outcome: 'not-sent' });
    now = 6_000;
    finish({ status: 503, reason: 'overloaded', outcome: 'not-sent' });
    const at = { limitedAt: time(5_000), lastSeenAt: time(6_000) };
    expect(recorder.caller('billing')).toEqual({ requests: 5, denied: 1, limited: 2, ...at });
    expect(recorder.caller('shop')).toMatchObject({ requests: 0, limitedAt: null, lastSeenAt: null });
  });

  it('that is unknown is not recorded', () => {
    recorder.requestFinished({ ...unrouted, reason: 'caller-unknown' });
    finish({ caller: 'elsewhere' });
    expect(recorder.caller('elsewhere').requests).toBe(0);
    expect(recorder.facts().failures).toHaveLength(1);
  });
});

describe('a reload', () => {
  it('keeps what is known of the names that stay, and drops the others', () => {
    now = 1_000;
    finish();
    finish({ environment: 'production', caller: 'shop' });
    recorder.reconfigure(loaded(['sandbox', 'staging'], ['billing', 'new']));
    expect(recorder.environment('sandbox').requestsPerSecond).toBe(1);
    expect(recorder.environment('staging').requestsPerSecond).toBe(0);
    expect(recorder.environment('production').requestsPerSecond).toBe(0);
    expect(['billing', 'new'].map((name) => recorder.caller(name).requests)).toEqual([1, 0]);
  });
});

describe('the key source', () => {
  const counts = { deniedLogins: 0, deniedLogin: null, loginsNotFound: 0, loginNotFound: null };
  const nothing = { state: null, since: null, problem: null, ...counts };

  it('has the time of its last change, and the problem while it is down', () => {
    expect(recorder.keySource()).toEqual(nothing);
    recorder.keySourceUp(true);
    now = 1_000;
    recorder.keySourceUp(true);
    expect(recorder.keySource()).toMatchObject({ state: 'up', since: time(0), problem: null });
    recorder.keySourceUp(false, 'timeout');
    now = 2_000;
    recorder.loginFailed('denied');
    expect(recorder.keySource()).toMatchObject({ state: 'down', since: time(1_000), problem: 'denied' });
    recorder.keySourceUp(true, 'ignored');
    expect(recorder.keySource()).toMatchObject({ state: 'up', since: time(2_000), problem: null });
  });

  it('is denied only while it responds, with the cause and the time of the first denial', () => {
    recorder.loginsDenied(1, 'no permission');
    expect(recorder.keySource().state).toBeNull();
    now = 1_000;
    recorder.keySourceUp(true);
    now = 2_000;
    recorder.loginsDenied(2, 'no permission');
    const denied = { state: 'denied', since: time(1_000), deniedLogins: 2, problem: 'no permission' };
    expect(recorder.keySource()).toMatchObject(denied);
    recorder.keySourceUp(false, 'timeout');
    expect(recorder.keySource()).toMatchObject({ state: 'down', since: time(2_000), problem: 'timeout' });
    recorder.keySourceUp(true);
    expect(recorder.keySource()).toMatchObject({ ...denied, since: time(2_000) });
    recorder.loginsDenied(0, 'no permission');
    expect(recorder.keySource()).toMatchObject({ state: 'up', deniedLogins: 0, problem: null });
  });

  it('has why a login could not be read, and nothing of a source before it', () => {
    const acme = { environment: 'sandbox', login: 'acme' };
    recorder.keyProblem('key read failed: no permission', acme);
    expect(recorder.readProblem(acme)).toBe('key read failed: no permission');
    recorder.keySourceUp(false, 'timeout');
    recorder.keySourceReplaced();
    expect(recorder.keySource()).toEqual(nothing);
    expect(recorder.readProblem(acme)).toBeUndefined();
  });
});

describe('a failed request', () => {
  it.each<[what: string, fields: Partial<RequestContext>, cause: string, section: string | null]>([
    ['an error of ours', { reason: 'overloaded' }, 'overloaded', '#countersignsaturated'],
    ['an error of the caller', { reason: 'caller-limit' }, 'caller-limit', '#caller-limit'],
    ['a repeated payment', { reason: 'duplicate-payment' }, 'duplicate-payment', '#repeated-payment'],
    ['a slow caller', { reason: 'request-timeout' }, 'request-timeout', '#incomplete-request'],
    ['a truncated response', { reason: 'gateway-reset' }, 'gateway-reset', '#no-complete-gateway-response'],
    [
      'a 403',
      { gatewayStatus: 403, rejection: 'current-key' },
      'current-key',
      '#countersigngatewayrejections',
    ],
    ['a 401', { gatewayStatus: 401, rejection: 'clock-skew' }, 'clock-skew', '#countersignclockskew'],
    ['a 404 of the gateway', { gatewayStatus: 404 }, 'gateway-status', null],
    ['a 404 after a retry', { gatewayStatus: 404, rejection: 'other-key' }, 'gateway-status', null],
    ['a 502 to a query', { gatewayStatus: 502, readOnly: true }, 'gateway-status', '#gateway-server-error'],
    [
      'a 502 to a payment',
      { gatewayStatus: 502, readOnly: false },
      'gateway-status',
      '#countersignoutcomeunknown',
    ],
  ])('is one with %s', (_what, fields, cause, section) => {
    finish(fields);
    expect(recorder.facts().failures).toMatchObject([{ cause, runbookSection: section }]);
  });

  it('is none with a response, also after a retry with another key', () => {
    finish();
    finish({ rejection: 'other-key' });
    expect(recorder.facts().failures).toEqual([]);
  });

  it('without caller, route and response has null for each of them', () => {
    recorder.requestFinished({ ...unrouted, reason: 'bad-request' });
    const none = 'caller environment operation login orderId statusPath status'.split(' ');
    expect(recorder.facts().failures).toEqual([
      {
        ...Object.fromEntries(none.map((name) => [name, null])),
        at: time(0),
        requestId: 'id-1',
        outcome: 'not-sent',
        cause: 'bad-request',
        runbookSection: '#invalid-request',
      },
    ]);
  });

  it('keeps nothing of the request that is not shown', () => {
    const rejected = { credential: 'token', certificateSubject: 'MARK', login: 'MARK' } as const;
    finish({ reason: 'not-allowed', rejected, callerRequestId: 'MARK', traceId: 'MARK' });
    expect(recorder.facts().failures).toHaveLength(1);
    expect(JSON.stringify(recorder.facts().failures)).not.toContain('MARK');
  });
});

it('failed requests of unknown callers do not hide the others', () => {
  const fail = (id: string, caller: object): void => {
    now += 7;
    finish({ id, reason: 'caller-unknown', ...caller });
  };
  for (let count = 0; count < 90; count += 1) fail(`known-${count}`, { caller: 'billing' });
  for (let count = 0; count < 500; count += 1) fail(`unknown-${count}`, { caller: undefined });
  fail('last', { caller: 'billing' });
  const ids = recorder.facts().failures.map(({ requestId }) => requestId);
  expect(ids.slice(0, 2)).toEqual(['last', 'unknown-499']);
  expect(ids.filter((id) => id.startsWith('unknown-'))).toHaveLength(20);
  expect(ids.at(-1)).toBe('known-11');
});

describe('failures of an environment', () => {
  const failures = () => recorder.environment('sandbox').failures;

  it('are those of the gateway and of Countersign in the last minute, and rejections, by cause', () => {
    now = 10_000;
    finish({ status: 502, reason: 'gateway-unreachable', unreachable: 'dns', login: 'acme' });
    finish({ status: 503, gatewayStatus: 503, login: 'acme' });
    finish({ status: 502, reason: 'gateway-unreachable', unreachable: 'refused', login: 'beta' });
    for (const reason of ['parameter-invalid', 'caller-limit', 'not-allowed'] as const) finish({ reason });
    finish({ status: 403, gatewayStatus: 403 });
    finish({ status: 404, gatewayStatus: 404 });
    const same = { caller: 'billing', operation: 'transfer', since: time(10_000), lastAt: time(10_000) };
    const one = { login: 'acme', count: 1, share: 0.125, ...same };
    expect(failures()).toEqual([
      { cause: 'gateway-unreachable', detail: 'refused', ...one, login: null, count: 2, share: 0.25 },
      { cause: 'gateway-status', detail: '503', ...one },
      { cause: 'rejected', detail: '403', ...one, login: null },
    ]);
    now = 69_999;
    expect(failures()).toHaveLength(3);
    now = 70_000;
    expect(failures()).toEqual([]);
  });

  it('have the TLS alert of the gateway, why Vault does not sign for that environment, the kind of the key, or the limit', () => {
    finish({ status: 502, reason: 'gateway-reset', tlsAlert: 'unknown ca', outcome: 'unknown' });
    recorder.transitSigned('sandbox', 'denied', 0.1, 'no permission');
    recorder.transitSigned('production', 'unavailable', 0.1, 'sealed');
    recorder.transitSigned('sandbox', 'ok', 0.1, undefined);
    finish({ status: 503, reason: 'signing-unavailable', outcome: 'not-sent' });
    finish({ status: 500, reason: 'internal' });
    finish({ status: 502, reason: 'key-missing', keyKind: 'private_key', outcome: 'not-sent' });
    finish({ status: 503, reason: 'overloaded', limit: 'key reads', outcome: 'not-sent' });
    expect(failures()).toMatchObject([
      { cause: 'gateway-reset', detail: 'unknown ca' },
      { cause: 'signing-unavailable', detail: 'no permission' },
      { cause: 'internal', detail: null },
      { cause: 'key-missing', detail: 'private_key' },
      { cause: 'overloaded', detail: 'key reads' },
    ]);
  });

  it('have the problem of the login, or else that of the key source', () => {
    const failed = { reason: 'key-source-unavailable', status: 503, login: 'acme' } as const;
    recorder.keySourceUp(false, 'sealed');
    finish(failed);
    expect(failures()).toMatchObject([{ detail: 'sealed' }]);
    recorder.keyProblem('denied', { environment: 'sandbox', login: 'acme' });
    recorder.keyProblem('the login to Vault failed');
    finish(failed);
    expect(failures()).toMatchObject([{ detail: 'denied' }]);
  });
});

describe('what the gateway said to a login', () => {
  it('is what it said to its last request of the last minute', () => {
    const logins = () => recorder.environment('sandbox').logins;
    finish({ login: 'acme', keyRejected: true });
    finish({ login: 'beta', keyRejected: true });
    finish({ login: 'beta' });
    finish({ keyRejected: true });
    expect(logins()).toEqual({ accepted: 0, rejected: 2, rejectedNames: ['beta', 'acme'] });
    now = 30_000;
    finish({ login: 'acme', keyRejected: false });
    expect(logins()).toEqual({ accepted: 1, rejected: 1, rejectedNames: ['beta'] });
    now = 60_000;
    expect(logins()).toEqual({ accepted: 1, rejected: 0, rejectedNames: [] });
  });

  it('is kept for the last thousand logins', () => {
    for (let login = 0; login < 1_500; login += 1) finish({ login: `login-${login}`, keyRejected: true });
    expect(recorder.environment('sandbox').logins).toEqual({
      accepted: 0,
      rejected: 1_000,
      rejectedNames: [1_499, 1_498, 1_497, 1_496, 1_495].map((login) => `login-${login}`),
    });
  });
});

describe('a response about another order', () => {
  const shown = () => recorder.facts().orderMismatches.map(({ requestId, field }) => `${requestId} ${field}`);

  it('is kept for an hour, newest first, also one of a query', () => {
    finish({ id: 'a', orderMismatch: 'order-id' });
    now = 1_000;
    finish({ id: 'b', orderMismatch: 'amount' });
    finish({ id: 'c' });
    expect(shown()).toEqual(['b amount', 'a order-id']);
    now = 3_600_001;
    expect(shown()).toEqual(['b amount']);
  });

  it('is one of at most twenty of its environment', () => {
    for (let id = 0; id < 30; id += 1) finish({ id: `${id}`, orderMismatch: 'order-id' });
    expect(shown()).toHaveLength(20);
  });
});

describe('a payment whose outcome is not known', () => {
  const ids = (): string[] => recorder.facts().uncertainPayments.map(({ requestId }) => requestId);
  const lost = (id: string, fields: Partial<RequestContext> = {}): void =>
    finish({ id, readOnly: false, outcome: 'unknown', reason: 'gateway-timeout', ...fields });

  it('is kept for an hour, newest first; a query is not', () => {
    lost('sent');
    lost('query', { readOnly: true });
    lost('not-sent', { outcome: 'not-sent', reason: 'overloaded' });
    now = 1_000;
    finish({ id: 'error', readOnly: false, status: 500, gatewayStatus: 500 });
    now = 3_600_000;
    expect(ids()).toEqual(['error', 'sent']);
    now += 1;
    expect(ids()).toEqual(['error']);
  });

  it('is one of at most a thousand of its environment, and none of another hides it', () => {
    lost('other', { environment: 'production' });
    for (let id = 0; id < 1_500; id += 1) lost(`id-${id}`);
    expect(ids()).toHaveLength(1_001);
    expect([ids()[0], ids().at(-2), ids().at(-1)]).toEqual(['id-1499', 'id-500', 'other']);
  });
});

it('the audit trail has its problem while it is down', () => {
  expect(recorder.facts().audit).toBeNull();
  recorder.auditUp(false, 'ENOSPC');
  expect(recorder.facts().audit).toEqual({ up: false, problem: 'ENOSPC' });
  recorder.auditUp(true);
  expect(recorder.facts().audit).toEqual({ up: true, problem: null });
});
