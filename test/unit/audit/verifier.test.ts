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

type Options = Partial<VerifierOptions>;

/** 11 records: a start record, and five requests with an intent and a result each. */
const whole = trailLines(5);
const head = headOf(whole.at(-1));
const upTo = (record: number): string[] => whole.slice(0, record);
const from = (record: number): string[] => whole.slice(record - 1);
/** Record 6 is another line. */
const replaced = (change: (line: string) => string): string[] => [
  ...upTo(5),
  change(whole[5] ?? ''),
  ...from(7),
];
const short = (of: Head): Head => ({ ...of, mac: of.mac.slice(0, 12) });

const bothKeys = [testAuditKey, otherAuditKey];
const withOther = trailLines(1, { key: otherAuditKey, after: head });
const twoKeys = [...whole, ...withOther];

/** Seals a record after another one. */
const sealed = (
  kind: 'start' | 'stop' | 'result',
  members: string,
  after = head,
  key = testAuditKey,
): string => new AuditChain(key, 'pod-a', after).seal(kind, members);

/** A start record that has the hash of what a crash left before it. */
function torn(text: string, after = head): string {
  const sha256 = createHash('sha256').update(text).digest('hex');
  return sealed(
    'start',
    `"time":"2026-01-15T13:00:00.000Z","torn":${text.length},"tornSha256":"${sha256}"`,
    after,
  );
}
const damaged = (bytes: number): string =>
  sealed('start', `"time":"2026-01-15T13:00:00.000Z","damaged":${bytes}`);

/** What a crash within record 12 leaves. */
const cut = '{"audit":"intent","se';
const cutStart = '{"audit":"start","seq":1';

/** Seals the records again from record 4 on, with another login. */
function rewritten(): string[] {
  const chain = new AuditChain(testAuditKey, 'pod-a', headOf(whole[2]));
  const again = from(4).map((line) => {
    const { audit, seq: _, instance: _1, key: _2, prev: _3, mac: _4, ...fields } = JSON.parse(line);
    const changed = { ...fields, ...(fields.login === undefined ? {} : { login: 'mallory' }) };
    return chain.seal(audit, JSON.stringify(changed).slice(1, -1));
  });
  return [...upTo(3), ...again];
}

it.each<[string, readonly TestFile[], Options?]>([
  ['whole', [whole]],
  ['with several heads, one as in the metric', [whole], { heads: [head, headOf(whole[4]), short(head)] }],
  ['from the second file on, after the head of the first', [from(7)], { after: [headOf(whole[5])] }],
  ['after a head as in the metric', [from(7)], { after: [short(headOf(whole[5]))] }],
  [
    'between log lines that are to be skipped',
    [['{"level":"info"}\n', ...whole, 'started\n']],
    { skipOthers: true },
  ],
  ['whose last line has no line feed yet', [[...upTo(10), (whole[10] ?? '').trimEnd()]], { heads: [head] }],
  ['with two keys', [twoKeys], { keys: bothKeys }],
  ['with a key that begins with another file', [whole, withOther], { keys: bothKeys }],
  [
    'with two crashes, the second one within the start record after the first',
    [[...whole, `${cut}\n`, `${cutStart}\n`, torn(`${cut}\n${cutStart}`)]],
  ],
  ['with a file that ends within a record, because another one was begun', [[...whole, cut], [torn(cut)]]],
])('a trail is accepted: %s', (_name, files, options = {}) => {
  expect(verifyFiles(files, options).defect).toBeUndefined();
});

const foreign = trailLines(5, { instance: 'pod-b' });
const forged = trailLines(1, { key: otherAuditKey, after: headOf(whole[4]) });
const keyOf = (key: string): string => `is sealed with the key ${key}`;
const noKey = 'which no --key-file has';
const replacedKey = `${keyOf(testAuditKey.id)}, which the key ${otherAuditKey.id} has replaced before`;

describe('tampering is found:', () => {
  it.each<[string, readonly TestFile[], string, Options?]>([
    ['a field', [replaced((line) => line.replace('acme', 'acmf'))], '1:6: Record 6 was changed'],
    ['a removed record', [[...upTo(5), ...from(7)]], '1:6: Record 6 is missing before record 7'],
    ['removed records', [[...upTo(3), ...from(7)]], '1:4: Records 4 to 6 are missing before record 7'],
    ['a repeated record', [[...upTo(6), ...from(6)]], '1:7: Record 6 is repeated or out of order'],
    ['a record with another key', [[...upTo(5), ...forged.slice(1, 2), ...from(6)]], `1:6: .* ${noKey}`],
    [
      'records of another instance',
      [[...upTo(5), ...foreign.slice(5, 7)]],
      '1:6: Record 6 follows another record',
    ],
    [
      'the first record cut off',
      [from(2)],
      '1:1: The trail begins with record 2: the records before it are missing',
    ],
    [
      'more than the archived files cut off at the front',
      [from(8)],
      '1:1: The trail begins with record 8: the records before it are missing, or do not end with the head of --after. Give their files, or their head with --after.',
      { after: [headOf(whole[5])] },
    ],
    ['a file given twice', [upTo(6), upTo(6)], '2:1: A new chain begins here instead of record 7'],
    ['the end cut off', [upTo(10)], `No file has record 11:${head.mac} of --head`, { heads: [head] }],
    ['rewritten with the stolen key', [rewritten()], 'No file has record 11:', { heads: [head] }],
    [
      'a head before the first record',
      [from(7)],
      'No file has record 3:[0-9a-f]{64} of --head',
      { after: [headOf(whole[5])], heads: [headOf(whole[2])] },
    ],
    ['nothing left', [[]], 'There is no record'],
    [
      'bytes of a crash that were removed',
      [[...whole, torn(cut)]],
      '1:12: Record 12 says that 21 bytes before it were no whole record, and they are not there now',
    ],
    [
      'lines that the process found damaged, and that were removed later',
      [[...whole, damaged(700)]],
      '1:12: Record 12 says that 700 bytes before it were no whole record, and they are not there now',
    ],
    [
      'a trail continued with a key that was replaced',
      [[...twoKeys, ...trailLines(1, { after: headOf(twoKeys.at(-1)) })]],
      `1:15: Record 15 ${replacedKey}`,
      { keys: bothKeys },
    ],
    [
      'another key without a start record',
      [[...whole, sealed('result', '"request":"a"', head, otherAuditKey)]],
      `1:12: Record 12 ${keyOf(otherAuditKey.id)}, the one before it with ${testAuditKey.id}: only a start record`,
      { keys: bothKeys },
    ],
  ])('%s', (_name, files, message, options = {}) => {
    expect(verifyFiles(files, options).defect).toMatch(new RegExp(`^${message}`));
  });

  /** A changed record that looks whole to a reader. */
  const unsealed = '{"audit":"result","seq":11,"login":"mallory"}\n';
  const unreadable = (whole[10] ?? '').replace('"outcome":', '"outcome"');
  /** As the process says that was started next, which did not read what they are. */
  const counted = (...lines: readonly string[]): string[] => [
    ...lines,
    torn('x'.repeat(lines.join('').length - 1)),
  ];

  it.each<[string, readonly TestFile[], string, Options?]>([
    ['an inserted line', [[...upTo(5), 'hello\n', ...from(6)]], '1:6'],
    ['a log line, unless such lines are to be skipped', [['{"level":"info"}\n', ...whole]], '1:1'],
    [
      'a damaged record, though they are',
      [replaced((line) => `${line.slice(0, 60)}\n`)],
      '1:6',
      { skipOthers: true },
    ],
    ['text at the end of a file that a start record continues', [[...whole, `${cut}"x`], withOther], '1:12'],
    ['text at the end that begins no record', [[...whole, '{"audit":"payment to mallory']], '1:12'],
    ['the beginning of a record in each of two files', [[...whole, cut], [cut]], '1:12'],
    ['other bytes than a crash left', [[...whole, `${cut}\n`, torn(cut.replace('se', 'sf'))]], '1:12'],
    ['a sealed one that is not readable, at the end', [[...upTo(10), unreadable.trimEnd()]], '1:11'],
    ['a record after a beginning, counted', [[...whole, ...counted('{"audit":"int\n', unsealed)]], '1:12'],
  ])('%s is not a record', (_name, files, place, options = {}) => {
    expect(verifyFiles(files, options).defect).toBe(
      `${place}: The line is not a record: inserted, or a record that was damaged.`,
    );
  });
});

describe('what is no tampering is reported', () => {
  it('bytes that a crash or, more than a line may have, a power failure left', () => {
    for (const text of [cut, '\0'.repeat(200_000)]) {
      const { defect } = verifyFiles([[...whole, `${text}\n`, torn(text)]]);
      expect(defect).toBeUndefined();
      const atEnd = verifyFiles([[...whole, text]]);
      expect([atEnd.defect, atEnd.summary.incomplete]).toEqual([undefined, [{ file: '1', line: 12 }]]);
    }
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

it('at most ten requests without a result are named, of all processes together', () => {
  const chain = new AuditChain(testAuditKey, 'pod-a');
  const process = (first: number) => [
    chain.seal('start', `"x":${first}`),
    ...Array.from({ length: 8 }, (_, index) => chain.seal('intent', `"request":"${first + index}"`)),
  ];
  const { summary } = verifyFiles([[...process(0), ...process(8)]]);
  expect(summary).toMatchObject({ unfinished: 16, unfinishedIds: '0123456789'.split('') });
});

describe('starts with files of their own', () => {
  const at = (minute: number, instance = 'pod-a'): string =>
    `20260115T120${minute}00.000Z-${instance}-0001.jsonl`;

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
  type Named = readonly [file: string, lines: readonly string[]];
  const all: readonly Named[] = [
    [at(1), first],
    [at(2), second],
    [at(3), third],
  ];
  const ofOther: Named = [at(2, 'pod-b'), begin(at(2, 'pod-b'), undefined, { instance: 'pod-b' })];
  const twoFiles = new AuditChain(testAuditKey, 'pod-a');
  const fileOf = (number: number): string => at(2).replace('0001', `000${number}`);
  const withTwoFiles: readonly Named[] = [
    { file: fileOf(1), before: endOf(at(1), first) },
    { file: fileOf(2), continued: true },
  ].map((fields) => [fields.file, [twoFiles.seal('start', JSON.stringify(fields).slice(1, -1))]]);
  const beforeEnd = endOf(at(1), first.slice(0, 2));
  const heads = [headOf(third.at(-1))];

  /** @returns the defect with the minute of its file */
  function verify(files: readonly Named[], options: Options = {}): string | undefined {
    const verifier = new Verifier({ keys: bothKeys, ...options });
    for (const [nth, [file, lines]] of files.entries()) {
      for (const [index, line] of lines.entries()) {
        const place = { file: `/trail/${file}`, line: index + 1 };
        const defect = verifier.add(Buffer.from(line.trimEnd()), place, !line.endsWith('\n'));
        if (defect !== undefined) return `${file.slice(11, 13)}: ${defect.message}`;
      }
      // The next file is of the same start.
      if (files[nth + 1]?.[0].slice(0, -10) === file.slice(0, -10)) continue;
      const defect = verifier.endTrail();
      if (defect !== undefined) return `${file.slice(11, 13)}: ${defect.message}`;
    }
    return verifier.end()?.message;
  }

  it.each<[string, readonly Named[], Options?]>([
    ['all', all],
    ['the head of each', all, { heads: [first, second, third].map((lines) => headOf(lines.at(-1))) }],
    ['one with two files', [...all.slice(0, 1), ...withTwoFiles]],
    ['those of two instances', [...all.slice(0, 1), ofOther, ...all.slice(1)]],
    ['the first ones are archived', all.slice(2), { after: [headOf(second.at(-1))] }],
    ['one began while the one before was running', [...all.slice(0, 1), [at(2), begin(at(2), beforeEnd)]]],
    [
      'a key that begins with a start',
      [...all.slice(0, 1), [at(2), begin(at(2), endOf(at(1), first), { key: otherAuditKey })]],
    ],
  ])('are accepted: %s', (_name, files, options = {}) => {
    expect(verify(files, options)).toBeUndefined();
  });

  const withKey = begin(at(4), endOf(at(3), third), { key: otherAuditKey });
  const follows = 'The start follows record 3:[0-9a-f]{64} of ';
  it.each<[string, readonly Named[], string, Options?]>([
    ['one removed', all.toSpliced(1, 1), `03: ${follows}${at(2)}, which is not before it`],
    ['the end of one cut off', [[at(1), first.slice(0, 2)], ...all.slice(1)], `02: ${follows}`],
    [
      'the end of one sealed again',
      [[at(1), [...first.slice(0, 2), sealed('stop', '"x":2', headOf(first[1]))]], ...all.slice(1)],
      `02: ${follows}`,
    ],
    [
      'the last end cut off',
      [...all.slice(0, 2), [at(3), third.slice(0, 2)]],
      'No file has record 3:',
      { heads },
    ],
    [
      'one under another name',
      [...all, [at(4), third]],
      `04: The file was written as ${at(3)}: it was copied or`,
    ],
    [
      'one added between',
      all.toSpliced(1, 1, [at(2), begin(at(2))]),
      '02: The start found no earlier file, and there is .*: it was added later',
    ],
    [
      'a key that was replaced',
      [...all, [at(4), withKey], [at(5), begin(at(5), endOf(at(4), withKey))]],
      `05: Record 1 ${replacedKey}`,
    ],
  ])('are not accepted: %s', (_name, files, message, options = {}) => {
    expect(verify(files, options)).toMatch(new RegExp(`^${message}`));
  });
});
