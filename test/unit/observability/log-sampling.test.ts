import { beforeEach, describe, expect, it } from '@jest/globals';
import { sampleRejections } from '../../../src/observability/log-sampling.ts';
import type { Logger } from '../../../src/observability/logger.ts';
import type { RequestContext } from '../../../src/request-context.ts';

let now: number;
let lines: string[];
let suppressed: number;
let log: Logger;

beforeEach(() => {
  [now, suppressed, lines] = [0, 0, []];
  const target: Logger = {
    requestFinished: ({ reason, caller }) => lines.push(`${caller} ${reason}`),
    handshakeFailed: ({ cause }) => lines.push(`handshake ${cause}`),
    internalError: () => {},
    crash: () => {},
    message: (_level, message, fields) => lines.push(`${message} ${JSON.stringify(fields)}`),
  };
  log = sampleRejections(target, { monotonic: () => now, suppressed: () => (suppressed += 1) });
});

function write(count: number, fields: Partial<RequestContext>): void {
  const context: RequestContext = {
    id: 'id',
    startedAt: 0,
    outcome: 'not-sent',
    attempts: 0,
    durations: {},
  };
  for (let nth = 0; nth < count; nth += 1) log.requestFinished({ ...context, ...fields });
}

describe('log lines of rejected requests', () => {
  it('without a caller are written up to a burst, then counted', () => {
    write(250, { reason: 'method-not-allowed' });
    expect([lines.length, suppressed]).toEqual([100, 150]);
  });

  it.each(['issuer-unavailable', 'pipelined'] as const)(
    'are limited also for a 503 that anybody can cause: %s',
    (reason) => {
      write(250, { reason });
      expect([lines.length, suppressed]).toEqual([100, 150]);
    },
  );

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

  it('share the limit with those of failed TLS handshakes', () => {
    for (let nth = 0; nth < 60; nth += 1)
      log.handshakeFailed({ role: 'listener', problem: 'other', cause: 'plain-http', peer: '10.0.0.7' });
    write(60, { reason: 'caller-unknown' });
    expect([lines.length, suppressed]).toEqual([100, 20]);
    expect(lines[0]).toBe('handshake plain-http');
  });

  it.each([{ caller: 'billing', reason: 'login-missing' } as const, { reason: 'shutting-down' } as const])(
    'are all written for %j',
    (fields) => {
      write(500, fields);
      expect([lines.length, suppressed]).toEqual([500, 0]);
    },
  );
});
