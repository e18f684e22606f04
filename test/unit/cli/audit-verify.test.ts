import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
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
      'verified: 7 records in 1 file',
      'time:     2026-01-15T12:00:00.000Z to 2026-01-15T12:00:01.000Z',
      'instance: pod-a',
      'keys:     621167eb',
      `head:     7:${head.mac} ${file}`,
      `note:     1 trail without a stop record: running, killed or cut off: ${file}`,
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
  expect(out).toMatch(/^verified: 5 records in 2 files\n/);
});

it('what is wrong with the trail as a whole has no line', async () => {
  const file = folder.file('a.jsonl', lines.slice(0, 5).join(''));
  const { code, err } = await run('verify', file, '--key-file', keyFile, '--head', `7:${head.mac}`);
  expect([code, err]).toEqual([
    1,
    `defect: No file has record 7:${head.mac} of --head: records were cut off at the end, its file is missing, or it was rewritten with the key.`,
  ]);
});

it('what is no defect is a note: what was lost, omitted, cut off or left without a result', async () => {
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
  const file = folder.file('a.jsonl', `${trail.join('')}{"audit":`);
  const { code, out } = await run('verify', file, '--key-file', keyFile);
  expect([code, out.split('\n').slice(4)]).toEqual([
    0,
    [
      'config:   3 applied, the last cc by reload at 12:05',
      `head:     6:${headOf(trail.at(-1)).mac} ${file}`,
      'note:     without --head, records cut off at the end and removed trails cannot be excluded',
      'note:     1 record could not be written (gap records)',
      'note:     1,200 rejected requests above the limit of their caller without a record (omitted records)',
      'note:     1 request without a result, in flight when their process or their file ended; their outcome is unknown: r-1',
      `note:     1 trail without a stop record: running, killed or cut off: ${file}`,
      `note:     ${file}:7 is incomplete: written now, or cut off by a crash`,
    ],
  ]);
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
    const { out } = await run('verify', file, '--key-file', keyFile);
    expect(out.replaceAll('\n', '')).toMatch(/^[ -~]*12:00\?\[2J[ -~]*pod\?\[2J[ -~]*request\?\[2J[ -~]*$/);
  });
});

it('lines of the log are skipped if that is asked for, and are no records otherwise', async () => {
  const file = folder.file('pod.log', `{"level":"info"}\n${lines.join('')}`);
  expect(await run('verify', file, '--key-file', keyFile, '--skip-log')).toMatchObject({ code: 0, err: '' });
  expect((await run('verify', file, '--key-file', keyFile)).err).toMatch(/The line is not a record/);
});

it.each([
  ['without a file', ['--key-file', 'k'], 'name a folder or a file'],
  ['without a key', ['a.jsonl'], '--key-file is missing'],
  ['without a MAC', ['a', '--head', '7'], '--head must be SEQUENCE:MAC with 12 to 64 hex digits'],
  ['with a MAC of 11 digits', ['a', '--after', '7:0123456789a'], '--after must be SEQUENCE:MAC'],
  ['with a MAC of 65 digits', ['a', '--head', `7:${'0'.repeat(65)}`], '--head must be SEQUENCE:MAC'],
])('wrong usage: %s', async (_, args, message) => {
  const key = args.includes('a') ? ['--key-file', keyFile] : [];
  expect(await run('verify', ...args, ...key)).toEqual({
    code: 2,
    out: '',
    err: expect.stringMatching(new RegExp(`${message}[^]*See: countersign audit verify --help`)),
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

describe('a folder', () => {
  const trail = () => auditIn(folder).directory;
  const write = (name: string, from: number, to: number) =>
    writeFileSync(join(trail(), name), fileLines.slice(from, to).join(''));
  const [one, two] = ['20260115T120000.000Z-pod-a-0009.jsonl', '20260115T120000.000Z-pod-a-0010.jsonl'];
  const chain = new AuditChain(testAuditKey, 'pod-a');
  const fileLines = [one, two].flatMap((file) => [
    chain.seal('start', `"time":"12:00","file":"${file}","continued":true`),
    chain.seal('stop', '"time":"12:01"'),
  ]);

  it('is verified file by file in their order, without what else is in it', async () => {
    write(one, 0, 2);
    write(two, 2, 4);
    writeFileSync(join(trail(), 'notes.txt'), 'notes');
    const { code, out } = await run('verify', trail(), '--key-file', keyFile);
    expect([code, out]).toEqual([0, expect.stringMatching(/^verified: 4 records in 2 files\n/)]);
    expect(out).toContain(`head:     4:${headOf(fileLines[3]).mac} ${join(trail(), two)}`);
    rmSync(join(trail(), one));
    expect((await run('verify', trail(), '--key-file', keyFile)).err).toMatch(
      /0010\.jsonl:1: The trail begins with record 3/,
    );
    const { mac } = headOf(fileLines[1]);
    expect(await run('verify', trail(), '--key-file', keyFile, '--after', `2:${mac}`)).toMatchObject({
      code: 0,
    });
  });

  it('has the starts of an instance in their order', async () => {
    const [first, second] = [one, '20260116T080000.000Z-pod-a-0001.jsonl'];
    const start = (members: object): string =>
      new AuditChain(testAuditKey, 'pod-a').seal('start', JSON.stringify(members).slice(1, -1));
    const line = start({ file: first });
    writeFileSync(join(trail(), first), line);
    writeFileSync(join(trail(), second), start({ file: second, before: { file: first, ...headOf(line) } }));
    expect(await run('verify', trail(), '--key-file', keyFile)).toMatchObject({ code: 0, err: '' });
  });

  it('without a file of a trail is none', async () => {
    expect(await run('verify', trail(), '--key-file', keyFile)).toMatchObject({
      code: 1,
      err: 'defect: There is no record.',
    });
  });
});

it('a trail of version 0.1.0, with a renamed file, a crash and another key, is still verified', async () => {
  const files = ['first', 'second'].map((name) => `test/vectors/audit-0.1.0/${name}.jsonl`);
  const keys = ['--key-file', keyFile, '--key-file', folder.file('second.key', 'c0de'.repeat(16))];
  const { code, out } = await run('verify', ...files, ...keys);
  expect([code, out]).toEqual([0, expect.stringMatching(/^verified: 14 records in 2 files\n/)]);
  const [first = '', second = ''] = files;
  const changed = readFileSync(second, 'utf8');
  const torn = folder.file('torn.jsonl', changed.replace(/^\{"audit":"stop","seq":8.*\n/m, ''));
  expect((await run('verify', first, torn, ...keys)).err).toMatch(
    /Record 8 says that 199 bytes before it were no whole record/,
  );
});
