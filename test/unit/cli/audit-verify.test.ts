import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { AuditChain } from '../../../src/audit/chain.ts';
import { audit } from '../../../src/cli/audit-verify.ts';
import { auditIn, headOf, testAuditKey, trailLines } from '../../support/audit.ts';
import { runCommandHere } from '../../support/cli.ts';
import { Folder } from '../../support/folder.ts';

let folder: Folder;
let keyFile: string;
beforeEach(() => {
  folder = new Folder();
  keyFile = auditIn(folder).keyFile;
});
afterEach(() => folder.remove());

const run = (...args: string[]) => runCommandHere(audit, ...args);
const lines = trailLines(3);
const head = headOf(lines.at(-1));

it('a whole trail is described, up to its head', async () => {
  const file = folder.file('a.jsonl', lines.join(''));
  expect(
    await run('verify', file, '--key-file', keyFile, '--head', `7:${head.mac.slice(0, 12).toUpperCase()}`),
  ).toEqual({
    code: 0,
    err: '',
    out: [
      'verified: 7 records in 1 file, 1 to 7',
      'time:     2026-01-15T12:00:00.000Z to 2026-01-15T12:00:01.000Z',
      'instance: pod-a',
      'keys:     621167eb',
      `head:     7:${head.mac}`,
    ].join('\n'),
  });
});

it('the first defect is reported with its file and line, after what was verified', async () => {
  const first = folder.file('a.jsonl', lines.slice(0, 3).join(''));
  const second = folder.file('b.jsonl', lines.slice(3).join('').replace('request-3', 'request-4'));
  const { code, out, err } = await run('verify', first, second, '--key-file', keyFile);
  expect([code, err]).toEqual([
    1,
    `defect: ${second}:3: Record 6 was changed, or was written without the key: its MAC is wrong.`,
  ]);
  expect(out).toMatch(/^verified: 5 records in 2 files, 1 to 5\n/);
});

it('what is wrong with the trail as a whole has no line', async () => {
  const file = folder.file('a.jsonl', lines.slice(0, 5).join(''));
  const { code, err } = await run('verify', file, '--key-file', keyFile, '--head', `7:${head.mac}`);
  expect([code, err]).toEqual([
    1,
    'defect: The trail ends with record 5, but record 7 was written: records were cut off at the end, or a file is missing.',
  ]);
});

it('an empty file is no trail', async () => {
  const file = folder.file('a.jsonl', '');
  expect(await run('verify', file, '--key-file', keyFile)).toEqual({
    code: 1,
    out: '',
    err: 'defect: There is no record.',
  });
});

it('what is no defect is a note', async () => {
  const file = folder.file('a.jsonl', `${lines.slice(0, 6).join('')}{"audit":`);
  const { code, out } = await run('verify', file, '--key-file', keyFile);
  expect([code, out.split('\n').slice(5)]).toEqual([
    0,
    [
      'note:     the trail begins with record 1 at 2026-01-15T12:00:00.000Z; without --head, earlier trails cannot be excluded',
      'note:     1 request at the end without a result',
      `note:     ${file}:7 is incomplete: written at this moment, or cut off by a crash; no record proves it yet`,
    ],
  ]);
});

it('what was lost, omitted, torn or left without a result is a note each, with its number', async () => {
  const chain = new AuditChain(testAuditKey, 'pod-a');
  const time = (minute: number): string => `"time":"12:0${minute}"`;
  const trail = [
    chain.seal('start', `${time(0)},"config":"aa"`),
    chain.seal('intent', `${time(1)},"request":"r-1"`),
    chain.seal('gap', `${time(2)},"lost":1`),
    chain.seal('omitted', `${time(3)},"count":1200`),
    chain.seal('start', `${time(4)},"config":"bb","torn":0`),
    chain.seal('config', `${time(5)},"config":"cc"`),
  ];
  const file = folder.file('a.jsonl', trail.join(''));
  const given = ['--key-file', keyFile, '--head', `6:${headOf(trail.at(-1)).mac}`];
  const { code, out } = await run('verify', file, ...given);
  expect([code, out.split('\n').slice(4)]).toEqual([
    0,
    [
      'config:   3 applied, the last cc by reload at 12:05',
      `head:     6:${headOf(trail.at(-1)).mac}`,
      'note:     1 record could not be written (gap records)',
      'note:     1,200 rejected requests exceeded the limit of their caller and have no record (omitted records)',
      'note:     1 request without a result when a process ended, as after a crash; their outcome is unknown: r-1',
    ],
  ]);
});

it('a trail that begins later says so by its first record, without a note', async () => {
  const file = folder.file('a.jsonl', lines.slice(3).join(''));
  const { mac } = headOf(lines[2]);
  const { code, out } = await run('verify', file, '--key-file', keyFile, '--after', `3:${mac}`);
  expect([code, out]).toEqual([0, expect.not.stringContaining('note:')]);
});

describe('the terminal does not obey', () => {
  const escape = '\u001b[2J';

  it('a forger who has no key', async () => {
    const line = lines[2]?.replace('621167eb', JSON.stringify(escape).slice(1, -1));
    const file = folder.file('a.jsonl', [...lines.slice(0, 2), line].join(''));
    expect(await run('verify', file, '--key-file', keyFile)).toMatchObject({
      code: 1,
      out: expect.not.stringContaining(escape),
      err: expect.stringMatching(/^defect: .*a\.jsonl:3: The line is not a record:[ -~]*$/),
    });
  });

  it('what a process was given to record', async () => {
    const chain = new AuditChain(testAuditKey, 'pod-a');
    const text = (value: string): string => JSON.stringify(value);
    const trail = [
      chain.seal('start', `"time":${text(`12:00${escape}`)}`),
      chain.seal('intent', `"request":${text(`request${escape}`)}`),
      chain.seal('start', '"time":"13:00"'),
    ];
    const other = new AuditChain(testAuditKey, `pod${escape}`, chain.head).seal('stop', '"time":"14:00"');
    const file = folder.file('a.jsonl', [...trail, other].join(''));
    const { code, out, err } = await run('verify', file, '--key-file', keyFile);
    expect([code, out.replaceAll('\n', ''), err]).toEqual([
      1,
      expect.stringMatching(/^[ -~]*12:00\?\[2J[ -~]*request\?\[2J$/),
      expect.stringMatching(/^[ -~]* is of instance pod\?\[2J, among records of pod-a[ -~]*$/),
    ]);
  });
});

it('lines longer than any record do not fill the memory', async () => {
  const file = folder.file('a.jsonl', `${lines.join('')}${'x'.repeat(2_000_000)}\n`);
  expect((await run('verify', file, '--key-file', keyFile)).err).toMatch(
    /a\.jsonl:8: The line is not a record/,
  );
});

describe('wrong usage', () => {
  it.each([
    ['without a file', ['--key-file', 'k'], /name at least one file/],
    ['without a key', ['a.jsonl'], /--key-file is missing/],
    [
      'with a head without its MAC',
      ['a.jsonl', '--key-file', 'KEY', '--head', '7'],
      /--head must be SEQUENCE:MAC with 12 to 64 hex digits/,
    ],
    [
      'with a MAC of 11 digits',
      ['a.jsonl', '--key-file', 'KEY', '--after', '7:0123456789a'],
      /--after must be SEQUENCE:MAC/,
    ],
    [
      'with a MAC of 65 digits',
      ['a.jsonl', '--key-file', 'KEY', '--head', `7:${'0'.repeat(65)}`],
      /--head must be SEQUENCE:MAC/,
    ],
    [
      'with an unknown option',
      ['a.jsonl', '--keyfile', 'k'],
      /unknown option --keyfile; did you mean --key-file\?|unknown option --keyfile/,
    ],
  ])('%s', async (_name, args, message) => {
    const { code, out, err } = await run('verify', ...args.map((arg) => (arg === 'KEY' ? keyFile : arg)));
    expect([code, out]).toEqual([2, '']);
    expect(err).toMatch(message);
    expect(err).toMatch(/See: countersign audit verify --help/);
  });

  it('with an unknown subcommand', async () => {
    expect(await run('verfy')).toMatchObject({ code: 2, err: expect.stringMatching(/verify/) });
  });
});

it.each([
  ['the trail', (file: string) => ['missing.jsonl', '--key-file', file], /missing\.jsonl does not exist/],
  ['the key', () => ['a.jsonl', '--key-file', 'missing.key'], /missing\.key does not exist/],
])('%s that cannot be read is a failure', async (_name, args, message) => {
  const { code, err } = await run('verify', ...args(keyFile));
  expect(code).toBe(1);
  expect(err).toMatch(message);
});

it('the help is printed', async () => {
  expect((await run('--help')).out).toMatch(/^Usage: countersign audit SUBCOMMAND/);
  expect((await run('verify', '--help')).out).toMatch(
    /^Usage: countersign audit verify FILE\.\.\. --key-file FILE/,
  );
});
