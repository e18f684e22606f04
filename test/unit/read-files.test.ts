import { mkdir, mkdtemp, readFile, rename, rm, symlink, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { readConsistent, readText } from '../../src/read-files.ts';

let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'countersign-snapshot-'));
  await turnTo(1);
  await symlink('..data/a', join(folder, 'a'));
  await symlink('..data/b', join(folder, 'b'));
});
afterEach(() => rm(folder, { recursive: true }));

/** Like the kubelet: creates a new directory, points `..data` to it atomically, then removes the old one. */
async function turnTo(generation: number): Promise<void> {
  await mkdir(join(folder, `..${generation}`));
  await writeFile(join(folder, `..${generation}`, 'a'), `a${generation}`);
  await writeFile(join(folder, `..${generation}`, 'b'), `b${generation}`);
  await symlink(`..${generation}`, join(folder, '..data_tmp'));
  await rename(join(folder, '..data_tmp'), join(folder, '..data'));
  await rm(join(folder, `..${generation - 1}`), { recursive: true, force: true });
}

/** Reads the files one by one, and runs `between` after the first one. */
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

it('does not mix two generations of a mount that is replaced between two files', async () => {
  let generation = 1;
  const read = readingAround(async () => {
    if (generation === 1) await turnTo(++generation);
  });
  expect(await texts(read)).toEqual(['a2', 'b2']);
});

it('fails if the mount is replaced again during the retry', async () => {
  let generation = 1;
  const read = readingAround(() => turnTo(++generation));
  await expect(texts(read)).rejects.toThrow('the files changed twice while they were read');
  expect(generation).toBe(3);
});

it('retries if a file is overwritten with the same length', async () => {
  let written = false;
  const read = readingAround(async () => {
    if (!written) await writeFile(join(folder, 'a'), 'A1');
    written = true;
  });
  expect(await texts(read)).toEqual(['A1', 'b1']);
});

it('retries if a file is deleted meanwhile', async () => {
  const read = readingAround(() => rm(join(folder, '..data', 'b'), { force: true }));
  expect((await readConsistent(paths(), { read })).contents).toEqual([Buffer.from('a1'), undefined]);
});

it('returns the time of the latest change', async () => {
  await utimes(join(folder, 'a'), new Date(5000), new Date(5000));
  await utimes(join(folder, 'b'), new Date(9000), new Date(9000));
  expect((await readConsistent(paths())).changedAt).toEqual(new Date(9000));
});

it('accepts files of 64 KiB and rejects larger ones without reading them', async () => {
  await truncate(join(folder, 'b'), 65_536);
  expect((await readConsistent(paths())).contents[1]).toHaveLength(65_536);
  await truncate(join(folder, 'b'), 65_537);
  const untouched = (): Promise<Buffer> => Promise.reject(new Error('was read'));
  await expect(readConsistent(paths(), { read: untouched })).rejects.toThrow(
    'one of the files is larger than 65536 bytes',
  );
});

it('accepts regular files only, so that a pipe cannot block it', async () => {
  await rm(join(folder, 'b'));
  await mkdir(join(folder, 'b'));
  await expect(texts()).rejects.toThrow('one of the files is not a regular file');
  await expect(readText('/dev/null')).rejects.toThrow('one of the files is not a regular file');
});

it('the text of a file, or why there is none', async () => {
  expect(await readText(join(folder, 'a'))).toBe('a1');
  const missing = join(folder, 'missing');
  await expect(readText(missing)).rejects.toThrow(new Error(`${missing}: does not exist`));
  const below = join(folder, 'a', 'file');
  await expect(readText(below)).rejects.toThrow(new Error(`${below}: cannot be read (ENOTDIR)`));
  await expect(readText(folder)).rejects.toThrow(
    new Error(`${folder}: cannot be read (one of the files is not a regular file)`),
  );
  await truncate(join(folder, 'a'), 262_144);
  expect(await readText(join(folder, 'a'))).toHaveLength(262_144);
  await truncate(join(folder, 'a'), 262_145);
  await expect(readText(join(folder, 'a'))).rejects.toThrow('(one of the files is larger than 262144 bytes)');
  await writeFile(join(folder, 'a'), '\ufeffa1');
  expect(await readText(join(folder, 'a'))).toBe('a1');
  await writeFile(join(folder, 'a'), Buffer.from('\ufeffa1', 'utf16le'));
  await expect(readText(join(folder, 'a'))).rejects.toThrow('is not text in UTF-8; save it as UTF-8');
});
