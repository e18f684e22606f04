import { createHmac } from 'node:crypto';
import { beforeEach, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { AuditLog } from '../../../src/audit/audit-log.ts';
import {
  AuditChain,
  genesis,
  isGenuine,
  parseRecord,
  type RecordKind,
  recordKinds,
} from '../../../src/audit/chain.ts';
import { endFields, intentFields } from '../../../src/audit/record-fields.ts';
import { Verifier } from '../../../src/audit/verifier.ts';
import type { RequestContext } from '../../../src/request-context.ts';
import { auditKeyText, headOf, testAuditKey, trailLines, verifyFiles } from '../../support/audit.ts';

describe('a record', () => {
  it('is one line of JSON, sealed over its bytes up to the MAC', () => {
    const line = new AuditChain(testAuditKey, 'pod-"a').seal('stop', '"time":"now"');
    const [, signed = '', mac = ''] = /^(.*),"mac":"([0-9a-f]{64})"\}\n$/.exec(line) ?? [];
    expect(mac).toBe(createHmac('sha256', auditKeyText).update(signed).digest('hex'));
    const members = { audit: 'stop', seq: 1, instance: 'pod-"a', key: testAuditKey.id, time: 'now' };
    expect(JSON.parse(line)).toEqual({ ...members, prev: genesis.mac, mac });
  });

  const good = (trailLines(0)[0] ?? '').trimEnd();
  it.each([
    ['a line of the log', '{"level":"info","time":"now"}'],
    ['one without its end', good.slice(0, -1)],
    ['one of an unknown kind', good.replace('"start"', '"other"')],
    ['one without a number', good.replace('"seq":1', '"seq":"1"')],
    ['one with number 0', good.replace('"seq":1', '"seq":0')],
    ['one without an instance', good.replace('"instance":"pod-a"', '"instance":1')],
    ['one without a key', good.replace(/"key":"[0-9a-f]+"/, '"key":null')],
    ['a list', `[1,"mac":"${'0'.repeat(64)}"}`],
    ['a line that is only a seal', `,"mac":"${'0'.repeat(64)}"}`],
  ])('is none: %s', (_name, line) => {
    expect(parseRecord(Buffer.from(line))).toBeUndefined();
  });
});

describe('for any records', () => {
  const fields = fc.dictionary(
    fc.string({ maxLength: 8 }).map((name) => `f-${name}`),
    fc.jsonValue(),
    { minKeys: 1, maxKeys: 4 },
  );
  const bodies = fc.array(fc.tuple(fc.constantFrom(...recordKinds), fields), { minLength: 1, maxLength: 12 });

  function sealAll(all: readonly (readonly [RecordKind, object])[]): string[] {
    const chain = new AuditChain(testAuditKey, 'pod-a');
    return all.map(([kind, body]) => chain.seal(kind, JSON.stringify(body).slice(1, -1)));
  }

  it('the trail is accepted, and each record is genuine and has its fields', () => {
    fc.assert(
      fc.property(bodies, (all) => {
        const lines = sealAll(all);
        expect(verifyFiles([lines]).defect).toBeUndefined();
        for (const [index, line] of lines.entries()) {
          const bytes = Buffer.from(line.slice(0, -1));
          expect(isGenuine(bytes, testAuditKey)).toBe(true);
          expect(parseRecord(bytes)?.fields).toMatchObject(JSON.parse(JSON.stringify(all[index]?.[1])));
        }
      }),
    );
  });

  it('any change of a byte is found', () => {
    fc.assert(
      fc.property(bodies, fc.nat(), fc.integer({ min: 1, max: 255 }), (all, at, flip) => {
        const lines = sealAll(all);
        const bytes = Buffer.from(lines.join(''));
        const index = at % bytes.length;
        bytes[index] = (bytes[index] ?? 0) ^ flip;
        const verifier = new Verifier({ keys: [testAuditKey], heads: [headOf(lines.at(-1))] });
        // As latin1: what was changed need not be UTF-8.
        const changed = bytes.toString('latin1').match(/[^\n]*\n|[^\n]+$/g) ?? [];
        const isFine = changed.every((line, nth) => {
          const isOpen = !line.endsWith('\n');
          const text = Buffer.from(isOpen ? line : line.slice(0, -1), 'latin1');
          return verifier.add(text, { file: 'f', line: nth + 1 }, isOpen) === undefined;
        });
        expect(isFine && !verifier.endTrail() && !verifier.end()).toBe(false);
      }),
    );
  });

  it('any removal, repetition or move of records is found', () => {
    fc.assert(
      fc.property(bodies, fc.infiniteStream(fc.nat()), (all, random) => {
        const lines = sealAll(all);
        const pick = (bound: number): number => (random.next().value ?? 0) % bound;
        const changed = [...lines];
        const [picked = ''] = changed.splice(pick(changed.length), 1);
        const copies = pick(3);
        for (let copy = 0; copy < copies; copy += 1) changed.splice(pick(changed.length + 1), 0, picked);
        const isSame = changed.join('') === lines.join('');
        const { defect } = verifyFiles([changed], { heads: [headOf(lines.at(-1))] });
        expect(defect === undefined).toBe(isSame);
      }),
    );
  });
});

const context: RequestContext = { id: 'id', startedAt: 0, outcome: 'not-sent', attempts: 0, durations: {} };
const attempt = {
  request: {
    record: { id: 'id', caller: 'billing' },
    destination: { environment: 'sandbox', operation: { name: 'transfer' } },
    form: [],
  },
  key: { kind: 'control_key', version: 3 },
  signature: { nonce: 'n', timestamp: 7 },
} as const;

it.each<NonNullable<RequestContext['rejected']>>([
  { credential: 'jwt', jwtProblem: 'jwt-no-caller', jwtSubject: 'stranger' },
  { credential: 'certificate', certificateSubject: 'CN=stranger', certificateProblem: 'CERT_HAS_EXPIRED' },
  { credential: 'none', environment: 'sandbox', operation: 'transfer', login: 'acme', peer: '192.0.2.1' },
])('a rejected request is recorded with what it presented, and why that was not accepted: %j', (rejected) => {
  const { credential, ...facts } = rejected;
  expect(endFields({ ...context, rejected })).toMatchObject({ presented: credential, ...facts });
});

/** The digits from its second group on are as many as those of a card number. */
const uuidOfDigits = 'c0ffee1b-1234-4567-8901-234568a90bcd';

it.each([
  ['client_orderid=a', 'a'],
  ['client-order-id=a&amount=1', 'a'],
  ['client-order-id=a&client-order-id=a', 'a'],
  ['client_orderid=a&client_orderid=b', undefined],
  [`client_orderid=${'a'.repeat(128)}`, 'a'.repeat(128)],
  [`client_orderid=${'a'.repeat(129)}`, undefined],
  ['client-order-id=4000007711223344', 'omitted'],
  ['client_orderid=x-4111-1111-1111-1111', 'omitted'],
  ['client_orderid=ORD-20261122061200', 'ORD-20261122061200'],
  [`client_orderid=${uuidOfDigits}`, uuidOfDigits],
])('an intent names the order if it is known, and could be nothing else: %s', (form, id) => {
  const request = { ...attempt.request, form: [...new URLSearchParams(form)] };
  expect(intentFields({ ...attempt, request }).clientOrderId).toBe(id);
});

describe('the audit log', () => {
  let now: number;
  let records: { kind: RecordKind; caller?: string; count?: number }[];
  let omitted: number;
  let log: AuditLog;
  /** Whether the disk has what is confirmed. */
  let isWritten: boolean;
  const trail = {
    append: (kind: RecordKind, fields: object) => records.push({ kind, ...fields }) > 0,
    confirm: async (kind: RecordKind, fields: object) => trail.append(kind, fields) && isWritten,
  };
  const create = (required: boolean) =>
    new AuditLog({ trail, required, recordsOmitted: (count) => (omitted += count), monotonic: () => now });

  beforeEach(() => {
    [now, records, omitted] = [0, [], 0];
    log = create(false);
  });

  function finish(count: number, fields: Partial<RequestContext>): void {
    for (let nth = 0; nth < count; nth += 1) log.requestFinished({ ...context, ...fields });
  }
  const noisy = { caller: 'noisy', reason: 'not-allowed' } as const;
  const rejectedOf = (name?: string): number =>
    records.filter(({ kind, caller }) => kind === 'rejected' && caller === name).length;
  /** Of the next minute. */
  function omittedNow(): unknown[] {
    records = [];
    log.recordOmitted();
    return records.map(({ kind, caller, count }) => [kind, caller, count]);
  }

  it('bounds records of rejected requests for each caller, and for all unknown ones together', () => {
    finish(500, noisy);
    finish(500, { reason: 'caller-unknown' });
    finish(90, { ...noisy, caller: 'quiet' });
    expect([rejectedOf('noisy'), rejectedOf(), rejectedOf('quiet')]).toEqual([100, 100, 90]);
    now = 10_000;
    finish(50, noisy);
    expect(rejectedOf('noisy')).toBe(110);
    now = 70_000;
    expect(omittedNow()).toEqual([
      ['omitted', 'noisy', 440],
      ['omitted', undefined, 400],
    ]);
    finish(200, noisy);
    expect(rejectedOf('noisy')).toBe(60);
    expect(omittedNow()).toEqual([['omitted', 'noisy', 140]]);
    expect(omittedNow()).toEqual([]);
    expect(omitted).toBe(980);
  });

  it('has one limit for rejected requests and callbacks, genuine ones too', () => {
    finish(95, noisy);
    finish(10, { caller: 'noisy', callback: 'verified', keyVersion: 1 });
    expect(records.filter(({ kind }) => kind === 'callback')).toHaveLength(5);
    now = 3_600_000;
    // Also of a caller that comes no more.
    expect(omittedNow()).toEqual([['omitted', 'noisy', 5]]);
  });

  it.each<Partial<RequestContext>>([
    { attempts: 1 },
    { keyVersion: 3, reason: 'overloaded' },
    { reason: 'audit-unavailable' },
  ])('always records the end of a request with an intent: %j', (fields) => {
    finish(300, { caller: 'billing', ...fields });
    expect([records.length, omitted]).toEqual([300, 0]);
  });

  it('lets nothing be sent before its intent is written if records are required', async () => {
    const required = create(true);
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
});
