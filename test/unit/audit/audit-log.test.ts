import { beforeEach, describe, expect, it } from '@jest/globals';
import { AuditLog } from '../../../src/audit/audit-log.ts';
import type { RecordKind } from '../../../src/audit/chain.ts';
import type { RequestContext } from '../../../src/request-context.ts';

let now: number;
let records: { kind: RecordKind; caller?: string; count?: number; request?: string }[];
let omitted: number;
let log: AuditLog;

beforeEach(() => {
  [now, records, omitted] = [0, [], 0];
  log = new AuditLog({
    trail,
    required: false,
    recordsOmitted: (count) => (omitted += count),
    monotonic: () => now,
  });
});

/** Whether the disk has what is confirmed. */
let isWritten: boolean;
const trail = {
  append: (kind: RecordKind, fields: object) => records.push({ kind, ...fields }) > 0,
  confirm: async (kind: RecordKind, fields: object) => {
    records.push({ kind, ...fields });
    return isWritten;
  },
};

function finish(count: number, fields: Partial<RequestContext>): void {
  const context: RequestContext = {
    id: 'id',
    startedAt: 0,
    outcome: 'not-sent',
    attempts: 0,
    durations: {},
  };
  for (let nth = 0; nth < count; nth += 1) log.requestFinished({ ...context, ...fields });
}

const kinds = (): string[] =>
  records.map(({ kind, caller, count }) =>
    [kind, caller, count].filter((part) => part !== undefined).join(' '),
  );
const rejectedOf = (name?: string): number =>
  records.filter(({ kind, caller }) => kind === 'rejected' && caller === name).length;

describe('records of rejected requests', () => {
  it('are bounded for each caller, and for all unknown ones together', () => {
    finish(500, { caller: 'noisy', reason: 'not-allowed' });
    finish(500, { reason: 'caller-unknown' });
    finish(90, { caller: 'quiet', reason: 'not-allowed' });
    expect([rejectedOf('noisy'), rejectedOf(), rejectedOf('quiet')]).toEqual([100, 100, 90]);
    now = 10_000;
    finish(50, { caller: 'noisy', reason: 'not-allowed' });
    expect(rejectedOf('noisy')).toBe(110);
  });

  it('are one per second after the burst, also of a caller whose omitted ones are counted each minute', () => {
    finish(200, { caller: 'noisy', reason: 'not-allowed' });
    now = 60_000;
    log.recordOmitted();
    finish(200, { caller: 'noisy', reason: 'not-allowed' });
    expect(rejectedOf('noisy')).toBe(100 + 60);
  });

  it('that were left out are counted each minute, for each caller', () => {
    finish(105, { caller: 'noisy', reason: 'not-allowed' });
    finish(103, { reason: 'caller-unknown' });
    records = [];
    log.recordOmitted();
    expect([kinds(), omitted]).toEqual([['omitted noisy 5', 'omitted 3'], 8]);
    log.recordOmitted();
    expect(records).toHaveLength(2);
  });

  it('share their limit with callbacks, genuine ones too, and what was left out of these is counted', () => {
    finish(95, { caller: 'noisy', reason: 'not-allowed' });
    finish(10, { caller: 'noisy', callback: 'verified', keyVersion: 1 });
    log.recordOmitted();
    expect(kinds().filter((kind) => kind.startsWith('callback'))).toHaveLength(5);
    expect([kinds().at(-1), omitted]).toEqual(['omitted noisy 5', 5]);
  });

  it('count what was left out of a caller that comes no more', () => {
    finish(150, { caller: 'noisy', reason: 'not-allowed' });
    now = 3_600_000;
    log.recordOmitted();
    expect([kinds().at(-1), omitted]).toEqual(['omitted noisy 50', 50]);
  });
});

it.each<Partial<RequestContext>>([
  { attempts: 1 },
  { keyVersion: 3, reason: 'overloaded' },
  { reason: 'audit-unavailable' },
])('the end of a request with an intent is always recorded: %j', (fields) => {
  finish(300, { caller: 'billing', ...fields });
  expect([records.length, omitted]).toEqual([300, 0]);
});

const attempt = {
  request: {
    record: { id: 'id', caller: 'billing' },
    destination: { environment: 'sandbox', operation: { name: 'transfer' } },
    form: [],
  },
  key: { kind: 'control_key', version: 3 },
  signature: { nonce: 'n', timestamp: 7 },
};

it('nothing is sent before its intent is written if records are required: the caller is told to retry', async () => {
  const required = new AuditLog({ trail, required: true, recordsOmitted() {}, monotonic: () => 0 });
  isWritten = true;
  await expect(required.intent(attempt)).resolves.toBeUndefined();
  expect(records).toMatchObject([{ kind: 'intent', request: 'id', caller: 'billing', keyVersion: 3 }]);
  isWritten = false;
  await expect(required.intent(attempt)).rejects.toMatchObject({
    reason: 'audit-unavailable',
    detail:
      'The audit record of this request could not be written, so nothing was sent. Send the request again.',
    headers: { 'Retry-After': '1' },
  });
  expect(log.intent(attempt)).toBeUndefined();
  expect(records).toHaveLength(3);
});
