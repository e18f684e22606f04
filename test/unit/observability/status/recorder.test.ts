import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Reason } from '../../../../src/errors.ts';
import {
  createStatusRecorder,
  type StatusNames,
  type StatusRecorder,
} from '../../../../src/observability/status/recorder.ts';
import type { RequestContext } from '../../../../src/request-context.ts';

const names = (environments: string[], callers: string[]): StatusNames => ({
  environments: Object.fromEntries(environments.map((name) => [name, {}])),
  callers,
});
const noon = Date.UTC(2026, 0, 1, 12);

/** Monotonic, milliseconds. */
let now: number;
/** Milliseconds by which the wall clock was set. */
let set: number;
let recorder: StatusRecorder;
beforeEach(() => {
  now = 0;
  set = 0;
  recorder = createStatusRecorder({
    clock: () => noon + now + set,
    monotonic: () => now,
    names: names(['sandbox', 'production'], ['billing', 'shop']),
    digest: 'first',
  });
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

const response = { environment: 'sandbox', operation: 'transfer', status: 200, seconds: 0.1 };

describe('an environment', () => {
  it('has the requests, responses and rejections of its last minute, and the clock skew', () => {
    now = 10_000;
    finish();
    finish({ environment: 'production' });
    finish();
    recorder.gatewayResponded(response);
    recorder.gatewayResponded({ ...response, status: 403, clockSkew: -2 });
    recorder.gatewayResponded({ ...response, status: 500 });
    const { latency, ...others } = recorder.environment('sandbox') ?? {};
    expect(others).toEqual({ requestsPerSecond: 0.2, rejectedShare: 1 / 3, clockSkew: -2 });
    expect(latency?.p50).toBeCloseTo(0.02, 2);
    expect(recorder.environment('production')?.clockSkew).toBeUndefined();
  });

  it('that the configuration does not have is not recorded', () => {
    finish({ environment: 'elsewhere' });
    recorder.gatewayResponded({ ...response, environment: 'elsewhere' });
    expect(recorder.environment('elsewhere')).toBeUndefined();
  });
});

describe('a caller', () => {
  it('has its requests, those that were denied, and the last one', () => {
    finish();
    now = 5_000;
    finish({ status: 403, reason: 'not-allowed', outcome: 'not-sent' });
    finish({ status: 503, reason: 'overloaded', outcome: 'not-sent' });
    expect(recorder.callers()).toEqual([
      { name: 'billing', requests: 3, denied: 1, lastSeenAt: noon + 5_000 },
      { name: 'shop', requests: 0, denied: 0, lastSeenAt: undefined },
    ]);
  });

  it('that is unknown is not recorded', () => {
    const { caller: _, ...fields } = { caller: 'x', reason: 'caller-unknown' as const };
    recorder.requestFinished({
      id: '1',
      startedAt: 0,
      outcome: 'not-sent',
      attempts: 0,
      durations: {},
      ...fields,
    });
    finish({ caller: 'elsewhere' });
    expect(recorder.callers().map(({ requests }) => requests)).toEqual([0, 0]);
    expect(recorder.failures()).toHaveLength(1);
  });
});

describe('a reload', () => {
  it('keeps what is known of the names that stay, and drops the others', () => {
    now = 1_000;
    finish();
    finish({ environment: 'production', caller: 'shop' });
    recorder.reconfigure(names(['sandbox', 'staging'], ['billing', 'new']));
    expect(recorder.environment('sandbox')?.requestsPerSecond).toBe(1);
    expect(recorder.environment('staging')?.requestsPerSecond).toBe(0);
    expect(recorder.environment('production')).toBeUndefined();
    expect(recorder.callers().map(({ name, requests }) => [name, requests])).toEqual([
      ['billing', 1],
      ['new', 0],
    ]);
  });

  it('has the digest and the time of the file in effect, also after another one failed', () => {
    now = 3_000;
    recorder.configLoaded(false, 0);
    expect(recorder.config()).toEqual({ digest: 'first', loadedAt: noon, reloadFailed: true });
    recorder.configApplied('second');
    recorder.configLoaded(true, 0);
    expect(recorder.config()).toEqual({ digest: 'second', loadedAt: noon + 3_000, reloadFailed: false });
  });
});

describe('the key source', () => {
  it('has the time of its last change, and the problem while it is down', () => {
    expect(recorder.keySource().up).toBeUndefined();
    recorder.keySourceUp(true);
    now = 1_000;
    recorder.keySourceUp(true);
    expect(recorder.keySource()).toMatchObject({ up: true, since: noon, problem: undefined });
    recorder.keySourceUp(false, 'timeout');
    now = 2_000;
    recorder.loginFailed('denied');
    expect(recorder.keySource()).toMatchObject({ up: false, since: noon + 1_000, problem: 'denied' });
    recorder.keySourceUp(true, 'ignored');
    expect(recorder.keySource()).toMatchObject({ up: true, since: noon + 2_000, problem: undefined });
  });

  it('has the expiry of the token, and nothing of a source before it', () => {
    recorder.tokenExpiryChanged(1.5);
    expect(recorder.keySource().tokenExpiresAt).toBe(1_500);
    recorder.keySourceUp(false, 'timeout');
    recorder.keySourceReplaced();
    expect(Object.values(recorder.keySource())).toEqual([undefined, undefined, undefined, undefined]);
    recorder.tokenExpiryChanged(2);
    recorder.tokenExpiryChanged(undefined);
    expect(recorder.keySource().tokenExpiresAt).toBeUndefined();
  });
});

it('a certificate is listed by the name that its metric has, until it is removed', () => {
  const validity = { from: 1, until: 2 };
  recorder.certificateLoaded({ role: 'listener', part: 'cert' }, { from: 0, until: 1 });
  recorder.certificateLoaded({ role: 'listener', part: 'cert' }, validity);
  recorder.certificateLoaded({ role: 'gateway', part: 'ca', environment: 'sandbox' }, validity);
  recorder.certificateLoaded({ role: 'gateway', part: 'ca', environment: 'production' }, validity);
  recorder.certificateRemoved({ role: 'gateway', environment: 'production' });
  expect(recorder.certificates()).toEqual([
    { name: 'listener', environment: undefined, ...validity },
    { name: 'gateway-ca', environment: 'sandbox', ...validity },
  ]);
});

it('failed requests of unknown callers do not hide the others', () => {
  const fail = (id: string, caller: object): void => {
    now += 7;
    finish({ id, reason: 'caller-unknown', ...caller });
  };
  for (let count = 0; count < 90; count += 1) fail(`known-${count}`, { caller: 'billing' });
  for (let count = 0; count < 500; count += 1) fail(`unknown-${count}`, { caller: undefined });
  fail('last', { caller: 'billing' });
  const ids = recorder.failures().map(({ requestId }) => requestId);
  expect(ids.slice(0, 2)).toEqual(['last', 'unknown-499']);
  expect(ids.filter((id) => id.startsWith('unknown-'))).toHaveLength(20);
  expect(ids.at(-1)).toBe('known-11');
});

it('failed requests are listed in their order although the wall clock was set back', () => {
  const fail = (id: string, caller: object): void => finish({ id, reason: 'overloaded', ...caller });
  for (let count = 0; count < 20; count += 1) fail(`before-${count}`, { caller: undefined });
  set = -3_600_000;
  for (let count = 0; count < 100; count += 1) fail(`after-${count}`, { caller: 'billing' });
  expect(recorder.failures().map(({ requestId }) => requestId)).toEqual(
    Array.from({ length: 100 }, (_, index) => `after-${99 - index}`),
  );
});

it('a hundred thousand failed requests of every kind take as much memory as the last hundred', () => {
  const reasons: readonly Reason[] = ['overloaded', 'not-allowed', 'gateway-timeout', 'key-missing'];
  for (let count = 0; count < 100_000; count += 1) {
    now += 7;
    const reason = reasons[count % reasons.length];
    finish({
      id: `id-${count}`,
      caller: `caller-${count}`,
      environment: `e-${count}`,
      ...(reason && { reason }),
    });
    recorder.gatewayResponded({ ...response, environment: `e-${count}` });
  }
  expect(recorder.failures().map(({ requestId }) => requestId)).toEqual(
    Array.from({ length: 100 }, (_, index) => `id-${99_999 - index}`),
  );
  expect(recorder.callers()).toHaveLength(2);
  expect(recorder.environment('e-99999')).toBeUndefined();
});
