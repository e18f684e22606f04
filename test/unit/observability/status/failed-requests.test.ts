import { describe, expect, it } from '@jest/globals';
import { failureOf, isFailed } from '../../../../src/observability/status/recorder.ts';
import type { RequestContext } from '../../../../src/request-context.ts';

const completed = (fields: Partial<RequestContext>): RequestContext => ({
  id: 'id-1',
  startedAt: 0,
  outcome: 'answered',
  attempts: 1,
  durations: {},
  ...fields,
});

describe('a request has failed', () => {
  it.each<[string, Partial<RequestContext>, string]>([
    ['an error of ours', { reason: 'overloaded', status: 503 }, 'overloaded'],
    ['a truncated response', { reason: 'gateway-reset', status: 200, gatewayStatus: 200 }, 'gateway-reset'],
    ['a 403', { status: 403, gatewayStatus: 403, rejection: 'current-key' }, 'current-key'],
    ['a 401', { status: 401, gatewayStatus: 401, rejection: 'current-key' }, 'current-key'],
    [
      'a 403 because of the clock',
      { status: 403, gatewayStatus: 403, rejection: 'clock-skew' },
      'clock-skew',
    ],
    ['a 404 of the gateway', { status: 404, gatewayStatus: 404 }, 'gateway-status'],
    [
      'a 404 after a retry with another key',
      { status: 404, gatewayStatus: 404, rejection: 'other-key' },
      'gateway-status',
    ],
  ])('with %s', (_what, fields, cause) => {
    expect(isFailed(completed(fields))).toBe(true);
    expect(failureOf(completed(fields)).cause).toBe(cause);
  });

  it.each<[string, Partial<RequestContext>]>([
    ['a response', { status: 200, gatewayStatus: 200 }],
    ['a redirect', { status: 302, gatewayStatus: 302 }],
    [
      'a response after a retry with another key',
      { status: 200, gatewayStatus: 200, rejection: 'other-key' },
    ],
  ])('not with %s', (_what, fields) => {
    expect(isFailed(completed(fields))).toBe(false);
  });
});

describe('a failed request', () => {
  it('without caller, route and response has null for each of them', () => {
    expect(failureOf(completed({ reason: 'bad-request', outcome: 'not-sent' }))).toEqual({
      requestId: 'id-1',
      caller: null,
      environment: null,
      operation: null,
      login: null,
      orderId: null,
      statusPath: null,
      status: null,
      outcome: 'not-sent',
      cause: 'bad-request',
      runbookSection: '#invalid-request',
    });
  });

  it('keeps nothing of the request that is not shown', () => {
    const rejected = { credential: 'token', certificateSubject: 'MARK', login: 'MARK' } as const;
    const context = completed({ reason: 'not-allowed', rejected, callerRequestId: 'MARK', traceId: 'MARK' });
    expect(JSON.stringify(failureOf(context))).not.toContain('MARK');
  });

  it('that is a payment with a server error has the section about its uncertain outcome', () => {
    const failed = { status: 502, gatewayStatus: 502 };
    const section = (fields: Partial<RequestContext>) => failureOf(completed(fields)).runbookSection;
    expect(section({ ...failed, readOnly: false })).toBe('#countersignoutcomeunknown');
    expect(section({ ...failed, readOnly: true })).toBe('#gateway-server-error');
  });
});
