import { readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { AuditFiles } from '../../../src/audit/files.ts';
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

it('an instance with other characters has a name that is safe', async () => {
  const files = await open('a/b c');
  await files.close();
  expect(readdirSync(folder.path)).toEqual(['20260115T120000.000Z-a_b_c-0001.jsonl']);
});

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
  await (await open('pod-b', noon - 1)).close();
  expect(readdirSync(folder.path)).toEqual([
    '20260115T115959.999Z-pod-b-0001.jsonl',
    '20260115T120000.000Z-pod-a-0001.jsonl',
    '20260115T120000.001Z-pod-a-0001.jsonl',
    '20260115T120000.002Z-pod-a-0001.jsonl',
    '20260115T120100.000Z-pod-a-0001.jsonl',
  ]);
});

it('a folder that does not exist is an error', async () => {
  folder.remove();
  await expect(open()).rejects.toMatchObject({ code: 'ENOENT' });
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
