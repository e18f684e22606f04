import { createHmac } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import {
  AuditChain,
  genesis,
  type Head,
  isGenuine,
  parseRecord,
  recordKinds,
} from '../../../src/audit/chain.ts';
import { Verifier } from '../../../src/audit/verifier.ts';
import { auditKeyText, testAuditKey, trailLines, verifyFiles } from '../../support/audit.ts';

it('a record is one line of JSON, sealed over its bytes up to the MAC', () => {
  const line = new AuditChain(testAuditKey, 'pod-"a').seal('stop', '"time":"now"');
  const [, signed = '', mac = ''] = /^(.*),"mac":"([0-9a-f]{64})"\}\n$/.exec(line) ?? [];
  expect(mac).toBe(createHmac('sha256', auditKeyText).update(signed).digest('hex'));
  expect(JSON.parse(line)).toEqual({
    audit: 'stop',
    seq: 1,
    instance: 'pod-"a',
    key: testAuditKey.id,
    time: 'now',
    prev: genesis.mac,
    mac,
  });
});

describe('no record is', () => {
  const good = (trailLines(0)[0] ?? '').trimEnd();
  it.each([
    ['an empty line', ''],
    ['a line of the log', '{"level":"info","time":"now"}'],
    ['a record without its end', good.slice(0, -1)],
    ['a record with a space at its end', `${good} `],
    ['a record with a carriage return', `${good}\r`],
    ['a record with upper-case digits', good.replace(/[0-9a-f]{64}"\}$/, (mac) => mac.toUpperCase())],
    ['a record of an unknown kind', good.replace('"start"', '"other"')],
    ['a record without a number', good.replace('"seq":1', '"seq":"1"')],
    ['a record with a fraction', good.replace('"seq":1', '"seq":1.5')],
    ['a record with number 0', good.replace('"seq":1', '"seq":0')],
    ['a record without an instance', good.replace('"instance":"pod-a"', '"instance":1')],
    ['a record without a key', good.replace(/"key":"[0-9a-f]+"/, '"key":null')],
    ['a record without the one before', good.replace('"prev":', '"prew":')],
    ['a list', `[1,"mac":"${'0'.repeat(64)}"}`],
    ['a line that is only a seal', `,"mac":"${'0'.repeat(64)}"}`],
  ])('%s', (_name, line) => {
    expect(parseRecord(Buffer.from(line))).toBeUndefined();
  });
});

const fields = fc.dictionary(
  fc.string({ maxLength: 8 }).map((name) => `f-${name}`),
  fc.jsonValue(),
  { minKeys: 1, maxKeys: 4 },
);
const bodies = fc.array(fc.tuple(fc.constantFrom(...recordKinds), fields), { minLength: 1, maxLength: 12 });

function sealAll(all: readonly (readonly [(typeof recordKinds)[number], object])[]): string[] {
  const chain = new AuditChain(testAuditKey, 'pod-a');
  return all.map(([kind, body]) => chain.seal(kind, JSON.stringify(body).slice(1, -1)));
}

describe('for any records', () => {
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
        const changed = splitLines(bytes);
        const head = { sequence: lines.length, mac: JSON.parse(lines.at(-1) ?? '').mac };
        expect(verifyBytes(changed, head)).toBe(false);
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
        const head = { sequence: lines.length, mac: JSON.parse(lines.at(-1) ?? '').mac };
        const isSame = changed.join('') === lines.join('');
        expect(verifyFiles([changed], { heads: [head] }).defect === undefined).toBe(isSame);
      }),
    );
  });
});

/** As bytes: what was changed need not be UTF-8. The end of a file without a line feed is the last part. */
function splitLines(bytes: Buffer): { line: Buffer; isOpen: boolean }[] {
  const parts: { line: Buffer; isOpen: boolean }[] = [];
  let start = 0;
  for (let end = bytes.indexOf(10); end !== -1; end = bytes.indexOf(10, start)) {
    parts.push({ line: bytes.subarray(start, end), isOpen: false });
    start = end + 1;
  }
  if (start < bytes.length) parts.push({ line: bytes.subarray(start), isOpen: true });
  return parts;
}

function verifyBytes(lines: ReturnType<typeof splitLines>, head: Head): boolean {
  const verifier = new Verifier({ keys: [testAuditKey], heads: [head] });
  const isFine = lines.every(
    ({ line, isOpen }, at) => verifier.add(line, { file: 'f', line: at + 1 }, isOpen) === undefined,
  );
  return isFine && verifier.endTrail() === undefined && verifier.end() === undefined;
}
