import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { AuditChain, type Head } from '../../../src/audit/chain.ts';
import { Verifier, type VerifierOptions } from '../../../src/audit/verifier.ts';
import {
  headOf,
  otherAuditKey,
  type TestFile,
  testAuditKey,
  trailLines,
  verifyFiles,
} from '../../support/audit.ts';

/** 11 records: a start record, and five requests with an intent and a result each. */
const whole = trailLines(5);
const head = headOf(whole.at(-1));
const replaced = (index: number, change: (line: string) => string): string[] =>
  whole.map((line, at) => (at === index ? change(line) : line));
const without = (from: number, to = from): string[] => whole.filter((_, at) => at < from || at > to);

/** Seals the same records again, from this one on. */
function resealed(index: number, key = testAuditKey): string[] {
  const chain = new AuditChain(key, 'pod-a', headOf(whole[index - 1]));
  const again = whole.slice(index).map((line) => {
    const {
      audit,
      seq: _seq,
      instance: _instance,
      key: _key,
      prev: _prev,
      mac: _mac,
      ...fields
    } = JSON.parse(line);
    const changed = { ...fields, ...(fields.login === undefined ? {} : { login: 'mallory' }) };
    return chain.seal(audit, JSON.stringify(changed).slice(1, -1));
  });
  return [...whole.slice(0, index), ...again];
}

describe('a trail is accepted', () => {
  it.each<[string, readonly TestFile[], Partial<VerifierOptions>?]>([
    ['whole', [whole]],
    ['with its head', [whole], { heads: [head] }],
    [
      'with several heads, one of them as in the metric',
      [whole],
      {
        heads: [head, headOf(whole[4]), { ...head, mac: head.mac.slice(0, 12) }],
      },
    ],
    ['in two files', [whole.slice(0, 6), whole.slice(6)]],
    ['from the second file on, after the head of the first', [whole.slice(6)], { after: [headOf(whole[5])] }],
    [
      'after a head as in the metric',
      [whole.slice(6)],
      { after: [{ ...headOf(whole[5]), mac: headOf(whole[5]).mac.slice(0, 12) }] },
    ],
    [
      'between log lines, if they are to be skipped',
      [['{"level":"info"}\n', ...whole, 'started\n']],
      {
        skipOthers: true,
      },
    ],
    [
      'whose last line has no line feed yet',
      [[...whole.slice(0, -1), (whole.at(-1) ?? '').trimEnd()]],
      {
        heads: [head],
      },
    ],
    [
      'with two keys',
      [[...whole, ...trailLines(1, { key: otherAuditKey, after: head })]],
      {
        keys: [testAuditKey, otherAuditKey],
      },
    ],
    [
      'with a key that begins with another file',
      [whole, trailLines(1, { key: otherAuditKey, after: head })],
      { keys: [testAuditKey, otherAuditKey] },
    ],
    [
      'with two crashes, the second one within the start record after the first',
      [
        [
          ...whole,
          '{"audit":"intent","se\n',
          '{"audit":"start","seq":1\n',
          torn('{"audit":"intent","se\n{"audit":"start","seq":1'),
        ],
      ],
    ],
    [
      'with a file that ends within a record, because its writer began another file',
      [[...whole, '{"audit":"intent","se'], [torn('{"audit":"intent","se')]],
    ],
    [
      'whose process was moved to another instance',
      [[...whole, ...trailLines(1, { instance: 'b', after: head })]],
    ],
  ])('%s', (_name, files, options = {}) => {
    expect(verifyFiles(files, options).defect).toBeUndefined();
  });
});

const foreign = trailLines(5, { instance: 'pod-b' });
const twoKeys = [...whole, ...trailLines(1, { key: otherAuditKey, after: head })];
/** A changed record that looks whole to a reader. */
const unsealed = '{"audit":"result","seq":11,"login":"mallory"}\n';
const unsealedEnd = ['{"audit":"intent","seq":10,"login":"mallory"}\n', unsealed];
const unreadable = (whole[10] ?? '').replace('"outcome":', '"outcome"');
const forged = trailLines(1, { key: otherAuditKey, after: headOf(whole[4]) })[1] ?? '';

describe('tampering is found', () => {
  it.each<[string, readonly TestFile[], Partial<VerifierOptions>, RegExp]>([
    [
      'a changed field',
      [replaced(5, (line) => line.replace('acme', 'acmf'))],
      {},
      /^1:6: Record 6 was changed/,
    ],
    [
      'one changed byte in the MAC',
      [replaced(5, (line) => line.replace(/.(?="}\n)/, (digit) => (digit === '0' ? '1' : '0')))],
      {},
      /^1:6: Record 6 was changed/,
    ],
    [
      'a changed sequence number',
      [replaced(5, (line) => line.replace('"seq":6', '"seq":7'))],
      {},
      /^1:6: Record 7 was changed/,
    ],
    [
      'a changed start record',
      [replaced(0, (line) => line.replace('12:00', '11:00'))],
      {},
      /^1:1: Record 1 was changed/,
    ],
    [
      'an added space',
      [replaced(5, (line) => line.replace('{"audit"', '{ "audit"'))],
      {},
      /^1:6: Record 6 was changed/,
    ],
    ['a removed record', [without(5)], {}, /^1:6: Record 6 is missing before record 7/],
    ['several removed records', [without(3, 5)], {}, /^1:4: Records 4 to 6 are missing before record 7/],
    ['an emptied line', [replaced(5, () => '\n')], {}, /^1:6: The line is not a record/],
    [
      'two records in another order',
      [[...whole.slice(0, 4), whole[5] ?? '', whole[4] ?? '', ...whole.slice(6)]],
      {},
      /^1:5: Record 5 is missing before record 6/,
    ],
    [
      'a repeated record',
      [[...whole.slice(0, 6), whole[5] ?? '', ...whole.slice(6)]],
      {},
      /^1:7: Record 6 is repeated or out of order/,
    ],
    [
      'an inserted line',
      [[...whole.slice(0, 5), 'hello\n', ...whole.slice(5)]],
      {},
      /^1:6: The line is not a record/,
    ],
    [
      'an inserted record with another key',
      [[...whole.slice(0, 5), forged, ...whole.slice(5)]],
      {},
      /^1:6: .* sealed with the key [0-9a-f]{8}, which no --key-file has/,
    ],
    [
      'the last record cut off',
      [without(10)],
      { heads: [head] },
      /^No file has record 11:[0-9a-f]{64} of --head/,
    ],
    ['everything but the start cut off', [whole.slice(0, 1)], { heads: [head] }, /^No file has record 11:/],
    [
      'half of the last record cut off',
      [[...without(10), (whole[10] ?? '').slice(0, 50)]],
      { heads: [head] },
      /^No file has record 11:/,
    ],
    [
      'the first record cut off',
      [whole.slice(1)],
      {},
      /^1:1: The trail begins with record 2: the records before it are missing/,
    ],
    [
      'more than the archived files cut off at the front',
      [whole.slice(7)],
      { after: [headOf(whole[5])] },
      /^1:1: The trail begins with record 8: the records before it are missing, or do not end with the head of --after/,
    ],
    [
      'rewritten without the key: a MAC of all zeros',
      [replaced(5, (line) => line.replace(/[0-9a-f]{64}"}\n$/, `${'0'.repeat(64)}"}\n`))],
      {},
      /^1:6: Record 6 was changed/,
    ],
    [
      'rewritten and sealed with another key',
      [resealed(3, otherAuditKey)],
      {},
      /^1:4: .* which no --key-file has/,
    ],
    [
      'the same, with the ID of the right key',
      [resealed(3, { ...otherAuditKey, id: testAuditKey.id })],
      {},
      /^1:4: Record 4 was changed, or was written without the key/,
    ],
    [
      'rewritten with the stolen key, by an earlier head',
      [resealed(3)],
      { heads: [head] },
      /^No file has record 11:/,
    ],
    [
      'cut off and continued by the process',
      [[...whole.slice(0, 7), ...trailLines(3, { after: headOf(whole[6]) })]],
      { heads: [head] },
      /^No file has record 11:/,
    ],
    [
      'records of another instance between',
      [[...whole.slice(0, 5), ...foreign.slice(5, 7), ...whole.slice(5)]],
      {},
      /^1:6: Record 6 follows another record/,
    ],
    [
      'continued with the file of another instance',
      [[...whole.slice(0, 5), ...foreign.slice(5)]],
      {},
      /^1:6: Record 6 follows another record/,
    ],
    [
      'a record of an earlier trail of the same instance',
      [
        [
          ...whole.slice(0, 5),
          trailLines(5, { after: { sequence: 0, mac: '1'.repeat(64) } })[5] ?? '',
          ...whole.slice(6),
        ],
      ],
      {},
      /^1:6: Record 6 follows another record than the one before it/,
    ],
    ['swapped files', [whole.slice(6), whole.slice(0, 6)], {}, /^1:1: The trail begins with record 7/],
    [
      'swapped files after the first',
      [whole.slice(0, 3), whole.slice(6), whole.slice(3, 6)],
      {},
      /^2:1: Records 4 to 6 are missing/,
    ],
    [
      'a sequence number that the holder of the key left out',
      [whole, trailLines(1, { after: { sequence: 20, mac: head.mac } })],
      {},
      /^2:1: Records 12 to 20 are missing before record 21/,
    ],
    [
      'a missing file',
      [whole.slice(0, 3), whole.slice(6)],
      {},
      /^2:1: Records 4 to 6 are missing before record 7: removed, or in a file that was left out/,
    ],
    [
      'a file given twice',
      [whole.slice(0, 6), whole.slice(0, 6)],
      {},
      /^2:1: A new chain begins here instead of record 7/,
    ],
    [
      'a removed file and a new chain',
      [whole.slice(0, 6), trailLines(2)],
      {},
      /^2:1: A new chain begins here instead of record 7/,
    ],
    [
      'bytes of a crash that were removed',
      [[...whole, torn('{"audit":"intent","se')]],
      {},
      /^1:12: Record 12 says that 21 bytes before it were no whole record, and they are not there now/,
    ],
    [
      'text without a line feed at the end of a file that a start record continues',
      [[...whole, '{"audit":"intent","seq":12,"x"'], trailLines(1, { after: head })],
      {},
      /^1:12: The line is not a record/,
    ],
    [
      'the same, though the writer was within a record',
      [[...whole, '{"audit":"intent","login":"m'], [torn('{"audit":"intent","login":"a')]],
      {},
      /^1:12: The line is not a record/,
    ],
    [
      'text without a line feed at the end of the trail, that is not the beginning of the next record',
      [[...whole, '{"audit":"payment to mallory']],
      {},
      /^1:12: The line is not a record/,
    ],
    [
      'the beginning of a later record at the end of the trail',
      [[...whole, '{"audit":"intent","seq":13,"x']],
      {},
      /^1:12: The line is not a record/,
    ],
    [
      'a line with a line feed before it',
      [[...whole, '{"audit":"intent"\n', '{"audit":"int']],
      {},
      /^1:12: The line is not a record/,
    ],
    [
      'the beginning of the next record at the end of one file and of another',
      [[...whole, '{"audit":"intent","se'], ['{"audit":"intent","se']],
      {},
      /^1:12: The line is not a record/,
    ],
    [
      'other bytes than a crash left, of the same length',
      [[...whole, '{"audit":"intent","se\n', torn('{"audit":"intent","sf')]],
      {},
      /^1:12: The line is not a record/,
    ],
    [
      'changed records at the end, counted by the process that was started next',
      [[...whole.slice(0, 9), ...unsealedEnd, torn('x'.repeat(lengthOf(unsealedEnd) - 1), headOf(whole[8]))]],
      {},
      /^1:10: The line is not a record: inserted, or a record that was damaged\.$/,
    ],
    [
      'one record without its seal, counted in the same way',
      [[...whole.slice(0, 10), unsealed, torn('x'.repeat(unsealed.length - 1), headOf(whole[9]))]],
      {},
      /^1:11: The line is not a record/,
    ],
    [
      'one record that is sealed and not readable, counted in the same way',
      [[...whole.slice(0, 10), unreadable, torn('x'.repeat(unreadable.length - 1), headOf(whole[9]))]],
      {},
      /^1:11: The line is not a record/,
    ],
    [
      'a record that was added after the beginning of one, counted in the same way',
      [[...whole, '{"audit":"int\n', unsealed, torn('x'.repeat(13 + unsealed.length))]],
      {},
      /^1:12: The line is not a record/,
    ],
    [
      'two beginnings of records of which the second is no start record',
      [[...whole, '{"audit":"int\n', '{"audit":"int\n', torn('x'.repeat(27))]],
      {},
      /^1:12: The line is not a record/,
    ],
    [
      'lines that the process found damaged when it was started',
      [[...whole, unsealed, damaged(unsealed.length)]],
      {},
      /^1:12: The line is not a record/,
    ],
    [
      'the same, and they were removed later',
      [[...whole, damaged(700)]],
      {},
      /^1:12: Record 12 says that 700 bytes before it were no whole record, and they are not there now/,
    ],
    [
      'a record without its seal and line feed at the end',
      [[...whole, unsealed.trimEnd()]],
      {},
      /^1:12: The line is not a record/,
    ],
    [
      'the beginning of a record at the end of a file, though the next file continues',
      [[...whole.slice(0, 6), '{"audit":"intent","se'], whole.slice(6)],
      {},
      /^1:7: The line is not a record/,
    ],
    [
      'a trail continued with a key that was replaced',
      [[...twoKeys, ...trailLines(1, { after: headOf(twoKeys.at(-1)) })]],
      { keys: [testAuditKey, otherAuditKey] },
      /^1:15: Record 15 is sealed with the key 621167eb, which the key [0-9a-f]{8} has replaced before/,
    ],
    [
      'the same, without a start record',
      [[...twoKeys, new AuditChain(testAuditKey, 'pod-a', headOf(twoKeys.at(-1))).seal('stop', '"x":1')]],
      { keys: [testAuditKey, otherAuditKey] },
      /^1:15: Record 15 is sealed with the key 621167eb, which the key [0-9a-f]{8} has replaced before/,
    ],
    [
      'another key without a start record',
      [[...whole, new AuditChain(otherAuditKey, 'pod-a', head).seal('result', '"request":"a"')]],
      { keys: [testAuditKey, otherAuditKey] },
      /^1:12: Record 12 is sealed with the key [0-9a-f]{8}, the one before it with 621167eb: only a start record/,
    ],
    [
      'a record whose key is no ID of a key',
      [replaced(5, (line) => line.replace(testAuditKey.id, '\\u001b[2Jx'))],
      {},
      /^1:6: The line is not a record/,
    ],
    ['nothing left', [[]], {}, /^There is no record/],
    [
      'a head before the first record',
      [whole.slice(6)],
      { after: [headOf(whole[5])], heads: [headOf(whole[2])] },
      /^No file has record 3:[0-9a-f]{64} of --head/,
    ],
    [
      'a log line, unless such lines are to be skipped',
      [['{"level":"info"}\n', ...whole]],
      {},
      /^1:1: The line is not a record/,
    ],
    [
      'a damaged record, though other lines are to be skipped',
      [replaced(5, (line) => `${line.slice(0, 60)}\n`)],
      { skipOthers: true },
      /^1:6: The line is not a record/,
    ],
  ])('%s', (_name, files, options, message) => {
    expect(verifyFiles(files, options).defect).toMatch(message);
  });
});

/** A start record that has the hash of what is before it. */
function torn(text: string, after = head): string {
  const sha256 = createHash('sha256').update(text).digest('hex');
  return startRecord(`"torn":${text.length},"tornSha256":"${sha256}"`, after);
}

function damaged(bytes: number): string {
  return startRecord(`"damaged":${bytes}`, head);
}

function startRecord(fields: string, after: Head): string {
  const chain = new AuditChain(testAuditKey, 'pod-a', after);
  return chain.seal('start', `"time":"2026-01-15T13:00:00.000Z",${fields}`);
}

function lengthOf(lines: readonly string[]): number {
  return lines.join('').length;
}

describe('what is no tampering is reported', () => {
  it('a record that a crash cut off', () => {
    const fragment = '{"audit":"intent","se\n';
    const { defect, summary } = verifyFiles([[...whole, fragment, torn(fragment.trimEnd())]]);
    expect([defect, summary.torn]).toEqual([undefined, fragment.length - 1]);
  });

  it('zeros that a power failure left, more than a line may have', () => {
    const zeros = '\0'.repeat(200_000);
    const { defect, summary } = verifyFiles([[...whole, `${zeros}\n`, torn(zeros)]]);
    expect([defect, summary.torn]).toEqual([undefined, zeros.length]);
    expect(verifyFiles([[...whole, zeros]]).defect).toBeUndefined();
  });

  it('a last line that is incomplete', () => {
    const { defect, summary } = verifyFiles([[...whole, '{"audit":"intent","se']]);
    expect([defect, summary.incomplete]).toEqual([undefined, [{ file: '1', line: 12 }]]);
  });

  it('requests without a result when a process ended, and at the end of the trail', () => {
    const chain = new AuditChain(testAuditKey, 'pod-a');
    const lines = [
      chain.seal('start', '"x":1'),
      chain.seal('intent', '"request":"a"'),
      chain.seal('intent', '"request":"a","canary":true'),
      chain.seal('intent', '"request":"b"'),
      chain.seal('start', '"continued":true'),
      chain.seal('result', '"request":"a"'),
      chain.seal('start', '"x":2'),
      chain.seal('intent', '"request":"c"'),
      chain.seal('intent', '"request":"d"'),
      chain.seal('rejected', '"request":"c"'),
      chain.seal('gap', '"lost":3'),
      chain.seal('omitted', '"count":5'),
      chain.seal('gap', '"lost":4'),
    ];
    const { defect, summary } = verifyFiles([lines]);
    expect(defect).toBeUndefined();
    expect(summary).toMatchObject({
      unfinished: 3,
      unfinishedIds: ['canary of a', 'b', 'd'],
      lost: 7,
      omitted: 5,
    });
  });
});

describe('starts with files of their own', () => {
  const at = (minute: number, number = 1, instance = 'pod-a'): string =>
    `20260115T120${minute}00.000Z-${instance}-000${number}.jsonl`;

  /** The lines of a start with one request. */
  function begin(file: string, before?: object, { key = testAuditKey, instance = 'pod-a' } = {}): string[] {
    const chain = new AuditChain(key, instance);
    const members = JSON.stringify({ file, before }).slice(1, -1);
    return [chain.seal('start', members), chain.seal('intent', '"request":"a"'), chain.seal('stop', '"x":1')];
  }
  const endOf = (file: string, lines: readonly string[]) => ({ file, ...headOf(lines.at(-1)) });

  const first = begin(at(1));
  const second = begin(at(2), endOf(at(1), first));
  const third = begin(at(3), endOf(at(2), second));
  const all = [
    [at(1), first],
    [at(2), second],
    [at(3), third],
  ] as const;
  const otherInstance = [
    at(2, 1, 'pod-b'),
    begin(at(2, 1, 'pod-b'), undefined, { instance: 'pod-b' }),
  ] as const;

  type Files = readonly (readonly [file: string, lines: readonly string[]])[];

  /** Each file is a trail. */
  function verify(files: Files, options: Partial<VerifierOptions> = {}): string | undefined {
    const verifier = new Verifier({ keys: [testAuditKey, otherAuditKey], ...options });
    for (const [file, lines] of files) {
      for (const [index, line] of lines.entries()) {
        const place = { file: `/trail/${file}`, line: index + 1 };
        const defect = verifier.add(Buffer.from(line.trimEnd()), place, !line.endsWith('\n'));
        if (defect !== undefined) return `${file.slice(11, 13)}: ${defect.message}`;
      }
      const defect = verifier.endTrail();
      if (defect !== undefined) return `${file.slice(11, 13)}: ${defect.message}`;
    }
    return verifier.end()?.message;
  }

  it.each<[string, Files, Partial<VerifierOptions>?]>([
    ['all', all],
    ['a file of an earlier version before them', [['audit.jsonl', whole], ...all]],
    ['the head of each', all, { heads: [first, second, third].map((lines) => headOf(lines.at(-1))) }],
    ['those of two instances', [all[0], otherInstance, all[1], all[2]]],
    ['the first ones are archived', all.slice(2), { after: [headOf(second.at(-1))] }],
    [
      'one began while the one before was running',
      [all[0], [at(2), begin(at(2), endOf(at(1), first.slice(0, 2)))]],
    ],
    ['a crash within a record', [all[0], [at(2), [...second.slice(0, 2), '{"audit":"result","seq":3,"x']]]],
    [
      'a key that begins with a start',
      [all[0], [at(2), begin(at(2), endOf(at(1), first), { key: otherAuditKey })]],
    ],
  ])('are accepted: %s', (_name, files, options = {}) => {
    expect(verify(files, options)).toBeUndefined();
  });

  const renamed = [at(4), third] as const;
  const forgedEnd = begin(at(4), endOf(at(3), third), { key: otherAuditKey });
  it.each<[string, Files, RegExp, Partial<VerifierOptions>?]>([
    [
      'a start removed',
      [all[0], all[2]],
      /^03: The start follows record 3:[0-9a-f]{64} of .*-0001\.jsonl, which is not before it/,
    ],
    ['the first one removed', all.slice(1), /^02: The start follows record 3:/],
    [
      'all but the head of another',
      all.slice(2),
      /^03: The start follows record 3:/,
      { after: [headOf(first[1])] },
    ],
    [
      'the end of one cut off before the next began',
      [[at(1), first.slice(0, 2)], all[1]],
      /^02: The start follows record 3:/,
    ],
    [
      'the end of the last one cut off',
      [all[0], all[1], [at(3), third.slice(0, 2)]],
      /^No file has record 3:/,
      { heads: [headOf(third.at(-1))] },
    ],
    ['the last one removed', all.slice(0, 2), /^No file has record 3:/, { heads: [headOf(third.at(-1))] }],
    [
      'one copied under another name',
      [...all, renamed],
      /^04: The file was written as 20260115T120300\.000Z-pod-a-0001\.jsonl: it was copied or renamed/,
    ],
    [
      'one added between',
      [all[0], [at(2), begin(at(2))], all[2]],
      /^02: The start found no earlier file, and there is .*: it was added later/,
    ],
    [
      'one added between that follows the one before',
      [all[0], all[1], [at(4), begin(at(4), endOf(at(1), first))]],
      /^04: The start follows record 3:/,
    ],
    [
      'a key that was replaced',
      [...all, [at(4), forgedEnd], [at(5), begin(at(5), endOf(at(4), forgedEnd))]],
      /^05: Record 1 is sealed with the key 621167eb, which the key [0-9a-f]{8} has replaced before/,
    ],
    ['lines after the end', [[at(1), [...first, 'junk\n']], all[1]], /^01: The line is not a record/],
  ])('are not accepted: %s', (_name, files, message, options = {}) => {
    expect(verify(files, options)).toMatch(message);
  });
});
