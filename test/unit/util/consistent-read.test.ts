import { mkdir, mkdtemp, readFile, rename, rm, symlink, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { readConsistent } from '../../../src/util/consistent-read.ts';

let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'countersign-snapshot-'));
  await turnTo(1);
  await symlink('..data/a', join(folder, 'a'));
  await symlink('..data/b', join(folder, 'b'));
});
afterEach(() => rm(folder, { recursive: true }));

/** What the kubelet does: a new folder, then `..data` turned to it in one step, then the old one removed. */
async function turnTo(generation: number): Promise<void> {
  await mkdir(join(folder, `..${generation}`));
  await writeFile(join(folder, `..${generation}`, 'a'), `a${generation}`);
  await writeFile(join(folder, `..${generation}`, 'b'), `b${generation}`);
  await symlink(`..${generation}`, join(folder, '..data_tmp'));
  await rename(join(folder, '..data_tmp'), join(folder, '..data'));
  await rm(join(folder, `..${generation - 1}`), { recursive: true, force: true });
}

/** Reads one file after the other, with `between` after the first of them. */
function readingAround(between: () => Promise<void>): (path: string) => Promise<Buffer> {
  let before: Promise<unknown> = Promise.resolve();
  return (path) => {
    const content = before.then(() => readFile(path));
    before = path.endsWith('a') ? content.then(between) : content.catch(() => undefined);
    return content;
  };
}

const paths = (): string[] => [join(folder, 'a'), join(folder, 'b')];
const texts = async (read?: (path: string) => Promise<Buffer>): Promise<string[]> =>
  (await readConsistent(paths(), read === undefined ? {} : { read })).contents.map(String);

it('reads files that belong together', async () => {
  expect(await texts()).toEqual(['a1', 'b1']);
});

it('does not mix two generations of a mount that is swapped between two files', async () => {
  let generation = 1;
  const read = readingAround(async () => {
    if (generation === 1) await turnTo(++generation);
  });
  expect(await texts(read)).toEqual(['a2', 'b2']);
});

it('gives up when the mount is swapped again during the second try', async () => {
  let generation = 1;
  const read = readingAround(() => turnTo(++generation));
  await expect(texts(read)).rejects.toThrow('the files changed twice while they were read');
  expect(generation).toBe(3);
});

it('reads again when a file is rewritten in place with the same length', async () => {
  let written = false;
  const read = readingAround(async () => {
    if (!written) await writeFile(join(folder, 'a'), 'A1');
    written = true;
  });
  expect(await texts(read)).toEqual(['A1', 'b1']);
});

it('reads again when a file goes away meanwhile', async () => {
  const read = readingAround(() => rm(join(folder, '..data', 'b'), { force: true }));
  expect((await readConsistent(paths(), { read })).contents).toEqual([Buffer.from('a1'), undefined]);
});

it('tells when the newest file was changed', async () => {
  await utimes(join(folder, 'a'), new Date(5000), new Date(5000));
  await utimes(join(folder, 'b'), new Date(9000), new Date(9000));
  expect((await readConsistent(paths())).changedAt).toEqual(new Date(9000));
});

it('takes files of 64 KiB and none larger, without reading them', async () => {
  await truncate(join(folder, 'b'), 65_536);
  expect((await readConsistent(paths())).contents[1]).toHaveLength(65_536);
  await truncate(join(folder, 'b'), 65_537);
  const untouched = (): Promise<Buffer> => Promise.reject(new Error('was read'));
  await expect(readConsistent(paths(), { read: untouched })).rejects.toThrow(
    'a file is larger than 65536 bytes',
  );
});

it('takes plain files only, so that a pipe cannot hold it up', async () => {
  await rm(join(folder, 'b'));
  await mkdir(join(folder, 'b'));
  await expect(texts()).rejects.toThrow('a file is not a plain file');
});
