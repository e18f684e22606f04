import { readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { AuditFiles } from '../../../src/audit/files.ts';
import { readAuditKey } from '../../../src/audit/key.ts';
import { readLines } from '../../../src/cli/audit-verify.ts';
import { headOf, trailLines } from '../../support/audit.ts';
import { Folder } from '../../support/folder.ts';

let folder: Folder;
let failures: unknown[];
beforeEach(() => {
  [folder, failures] = [new Folder(), []];
});
afterEach(() => folder.remove());

const noon = Date.UTC(2026, 0, 15, 12);
const open = (instance = 'pod-a', startedAt = noon, sync = false) =>
  AuditFiles.open({
    directory: folder.path,
    instance,
    startedAt,
    sync,
    beginFailed: (error) => failures.push(error),
  });
const content = (file: string): string => readFileSync(join(folder.path, file), 'utf8');
const write = (files: AuditFiles, text: string) => files.write(Buffer.from(text));

it.each([false, true])(
  'each start has a file, and those after it, which sort in their order; sync: %j',
  async (sync) => {
    const files = await open('pod-a', noon, sync);
    expect(await write(files, 'a')).toEqual({ written: 1, confirmed: 1 });
    await files.begin(files.nameOf(2));
    await write(files, 'b');
    await files.close();
    await (await open('pod-a', noon + 1)).close();
    expect(readdirSync(folder.path).sort()).toEqual([
      '20260115T120000.000Z-pod-a-0001.jsonl',
      '20260115T120000.000Z-pod-a-0002.jsonl',
      '20260115T120000.001Z-pod-a-0001.jsonl',
    ]);
    expect([content(files.nameOf(1)), content(files.nameOf(2)), failures]).toEqual(['a', 'b', []]);
    expect(statSync(join(folder.path, files.nameOf(1))).mode & 0o777).toBe(0o640);
  },
);

it('a file that exists is never opened: a start fails, a later file is left out', async () => {
  symlinkSync(folder.file('target', ''), join(folder.path, '20260115T120000.000Z-pod-a-0001.jsonl'));
  await expect(open()).rejects.toMatchObject({ code: 'EEXIST' });
  const files = await open('pod-a', noon + 1);
  await write(files, 'a');
  folder.file(files.nameOf(2), 'of another process');
  await files.begin(files.nameOf(2));
  await write(files, 'b');
  await files.close();
  expect([content(files.nameOf(1)), content(files.nameOf(2))]).toEqual(['ab', 'of another process']);
  expect(failures).toEqual([expect.objectContaining({ code: 'EEXIST' })]);
});

it('a start comes after the one before, also where the clock was set back', async () => {
  const starts = [noon, noon - 3_600_000, noon + 1, noon + 60_000];
  for (const startedAt of starts) await (await open('pod-a', startedAt)).close();
  // Its characters are safe in a name.
  await (await open('b/c d', noon - 1)).close();
  expect(readdirSync(folder.path)).toEqual([
    '20260115T115959.999Z-b_c_d-0001.jsonl',
    '20260115T120000.000Z-pod-a-0001.jsonl',
    '20260115T120000.001Z-pod-a-0001.jsonl',
    '20260115T120000.002Z-pod-a-0001.jsonl',
    '20260115T120100.000Z-pod-a-0001.jsonl',
  ]);
});

it('the newest record of the instance is known to its next start, whatever a crash left after it', async () => {
  const lines = trailLines(200);
  const file = '20260115T115900.000Z-pod-a-0002.jsonl';
  folder.file(file, `${lines.join('')}{"audit":"intent","se${'\0'.repeat(1_000_000)}`);
  // Of a start that was killed before its first record.
  folder.file('20260115T115901.000Z-pod-a-0001.jsonl', '');
  const [ofInstance, ofAnother] = [await open(), await open('pod-b')];
  expect(ofInstance.before).toEqual({ file, ...headOf(lines.at(-1)) });
  expect(ofAnother.before).toBeUndefined();
  await Promise.all([ofInstance.close(), ofAnother.close()]);
});

it.each([
  ['31 bytes', 'k'.repeat(31)],
  ['nothing', ''],
])('a file with %s is no key', async (_name, text) => {
  const file = folder.file('key', text);
  const message = `${file} has ${text.trim().length} bytes, and a key needs at least 32`;
  await expect(readAuditKey(file)).rejects.toThrow(message);
});

it('line ends after the key do not matter, other bytes do, and nothing prints it', async () => {
  const text = 'mark-of-an-audit-key-'.repeat(2);
  const keys = await Promise.all(
    [text, `${text}\n`, `${text}\r\n`, `${text} `, `\n${text}`].map((content, at) =>
      readAuditKey(folder.file(`key-${at}`, content)),
    ),
  );
  const ids = keys.map(({ id }) => id);
  expect([new Set(ids).size, new Set(ids.slice(0, 3)).size]).toEqual([3, 1]);
  const printed = JSON.stringify(keys) + inspect(keys, { depth: 9, showHidden: true });
  expect(printed).not.toContain('mark');
  expect(printed).not.toContain(Buffer.from(text).toString('hex'));
});

describe('lines are read', () => {
  async function linesOf(...chunks: string[]): Promise<[text: string, number: number, isOpen: boolean][]> {
    const lines: [string, number, boolean][] = [];
    for await (const some of readLines(Readable.from(chunks.map((chunk) => Buffer.from(chunk)))))
      for (const { bytes, number, isOpen } of some) lines.push([bytes.toString(), number, isOpen]);
    return lines;
  }

  it('wherever the chunks end', async () => {
    expect(await linesOf('a\nb', 'c\n', '\n', 'd')).toEqual([
      ['a', 1, false],
      ['bc', 2, false],
      ['', 3, false],
      ['d', 4, true],
    ]);
  });

  it('in parts if they are too long for a record, so that they do not fill the memory', async () => {
    const chunk = 'x'.repeat(50_000);
    const lines = await linesOf('a\n', chunk, chunk, chunk, chunk, '\nb\n');
    expect(lines.map(([{ length }, number, isOpen]) => [length, number, isOpen])).toEqual([
      [1, 1, false],
      [100_000, 2, true],
      [100_000, 2, true],
      [0, 2, false],
      [1, 3, false],
    ]);
  });
});
