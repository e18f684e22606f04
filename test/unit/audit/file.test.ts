import { createHash } from 'node:crypto';
import {
  existsSync,
  linkSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { AuditFile, type AuditFileOptions, openAuditFile } from '../../../src/audit/file.ts';
import { readTail, type Tail } from '../../../src/audit/tail.ts';
import { headOf, trailLines } from '../../support/audit.ts';
import { Folder } from '../../support/folder.ts';

const lines = trailLines(2);
const whole = lines.join('');
let folder: Folder;
let path: string;
let now: number;
let reopenFailures: unknown[];
let closeFailures: unknown[];
let opened: AuditFile[];

/** Descriptors of this process that lead to a file. Only Linux lists them. */
function descriptorsOf(file: string): string[] {
  const listed = '/proc/self/fd';
  return existsSync(listed)
    ? readdirSync(listed).filter((name) => targetOf(join(listed, name)) === file)
    : [];
}

function targetOf(link: string): string | undefined {
  try {
    return readlinkSync(link);
  } catch {
    return undefined; // closed meanwhile
  }
}

beforeEach(() => {
  folder = new Folder();
  [path, now, reopenFailures, closeFailures, opened] = [folder.at('audit.jsonl'), 0, [], [], []];
});
afterEach(async () => {
  await Promise.all(opened.map((file) => file.close()));
  folder.remove();
});

const optionsWith = (sync: boolean): AuditFileOptions => ({
  sync,
  monotonic: () => now,
  onReopenFailed: (error) => void reopenFailures.push(error),
  onCloseFailed: (error) => void closeFailures.push(error),
});

async function open(file = path, sync = false) {
  const result = await openAuditFile(file, optionsWith(sync));
  opened.push(result.output);
  return { file: result.output, tail: result.tail };
}

const write = (file: AuditFile, text: string) => file.write(Buffer.from(text));
const content = (file = path): string => readFileSync(file, 'utf8');

describe('opening a file', () => {
  it('creates it', async () => {
    const { file, tail } = await open();
    expect(tail).toEqual({ isOpen: false });
    expect(await write(file, 'a\n')).toEqual({ written: 2, confirmed: 2 });
    expect(content()).toBe('a\n');
  });

  it('is not possible twice, whatever the name of the file', async () => {
    await open();
    symlinkSync(path, folder.at('link.jsonl'));
    await expect(open()).rejects.toThrow('Another process writes to');
    await expect(open(folder.at('link.jsonl'))).rejects.toThrow('Another process writes to');
  });

  it('gives it a mode that a group may read', async () => {
    const umask = process.umask(0);
    try {
      await open();
    } finally {
      process.umask(umask);
    }
    expect((statSync(path).mode & 0o777).toString(8)).toBe('640');
  });

  it('is not possible under a second hard link, whichever process came first', async () => {
    await open();
    linkSync(path, folder.at('other.jsonl'));
    const rejection = /other\.jsonl has 2 hard links: under another name, another process could write to it/;
    await expect(open(folder.at('other.jsonl'))).rejects.toThrow(rejection);
    await opened.pop()?.close();
    await expect(open(folder.at('other.jsonl'))).rejects.toThrow(rejection);
    rmSync(path);
    await expect(open(folder.at('other.jsonl'))).resolves.toBeDefined();
  });

  it('continues it after its last record', async () => {
    writeFileSync(path, whole);
    const { file, tail } = await open();
    expect([head(tail), tail.torn, tail.isOpen]).toEqual([headOf(lines.at(-1)), undefined, false]);
    await write(file, 'next\n');
    expect(content()).toBe(`${whole}next\n`);
  });

  it.each([
    ['does not exist in its directory', 'missing/audit.jsonl', /ENOENT/],
    ['is a directory', '.', /EISDIR/],
    ['is a device', '/dev/full', /is not a regular file/],
  ])('fails for one that %s', async (_name, file, message) => {
    await expect(open(file.startsWith('/') ? file : folder.at(file))).rejects.toThrow(message);
  });

  it.each([
    ['text', 'hello\n'],
    ['text without a line feed', 'hello'],
    ['the log', '{"level":"info"}\n'.repeat(9_000)],
  ])('fails for one with other content, and leaves it alone: %s', async (_name, text) => {
    writeFileSync(path, text);
    await expect(open()).rejects.toThrow(/has content that is not an audit trail\. Move it away/);
    expect(content()).toBe(text);
    expect(existsSync(`${path}.lock`)).toBe(false);
    await expect(open(folder.at('other'))).resolves.toBeDefined();
  });

  it('fails while another process has it, and works after that one closed it', async () => {
    await open();
    await expect(open()).rejects.toThrow(/^Another process writes to /);
    await opened.pop()?.close();
    expect(existsSync(`${path}.lock`)).toBe(false);
    await expect(open()).resolves.toBeDefined();
  });
});

/** A file whose first handle fails when it is closed, as on a network file system that lost delayed writes. */
async function openWithFaultyClose() {
  const fault = Object.assign(new Error('x'), { code: 'EIO' });
  const handle = await openFile(path, 'a+');
  const close = handle.close.bind(handle);
  jest.spyOn(handle, 'close').mockImplementation(async () => {
    await close();
    throw fault;
  });
  const unlock = jest.fn(async () => {});
  return { file: new AuditFile(path, optionsWith(false), handle, unlock), fault, unlock };
}

it('closing a file releases its lock, even if the file cannot be closed', async () => {
  const { file, fault, unlock } = await openWithFaultyClose();
  await expect(file.close()).rejects.toBe(fault);
  expect(unlock).toHaveBeenCalledTimes(1);
});

describe('with sync, a write', () => {
  /** Replaces fdatasync of all files. */
  async function spyOnSync() {
    const handle = await openFile(folder.file('any', ''));
    const spy = jest.spyOn(Object.getPrototypeOf(handle), 'datasync');
    await handle.close();
    return spy;
  }

  it('waits until the disk has it, and without sync it does not', async () => {
    const spy = await spyOnSync();
    const { file } = await open(path, true);
    await write(file, 'a\n');
    expect(spy).toHaveBeenCalledTimes(1);
    await write((await open(folder.at('other'))).file, 'a\n');
    expect(spy).toHaveBeenCalledTimes(1);
    spy.mockRestore();
  });

  it('is not confirmed if the disk fails', async () => {
    const spy = await spyOnSync();
    spy.mockImplementation(() => Promise.reject(Object.assign(new Error('x'), { code: 'EIO' })));
    const { file } = await open(path, true);
    expect(await write(file, 'a\n')).toEqual({ written: 2, confirmed: 0, error: 'EIO' });
    spy.mockRestore();
  });

  it.each([
    [true, 0],
    [false, 2],
  ])(
    'that a full disk ends is confirmed as far as it is written, or not at all: %j',
    async (sync, confirmed) => {
      const handle = await openFile(path, 'a+');
      const spy = jest.spyOn(handle, 'write');
      const file = new AuditFile(path, optionsWith(sync), handle, async () => {});
      opened.push(file);
      spy.mockResolvedValueOnce({ bytesWritten: 2, buffer: '' });
      spy.mockRejectedValueOnce(Object.assign(new Error('x'), { code: 'ENOSPC' }));
      expect(await write(file, 'a\nb\n')).toEqual({ written: 2, confirmed, error: 'ENOSPC' });
    },
  );
});

async function tailOf(text: string): Promise<Tail | undefined> {
  writeFileSync(path, text);
  const handle = await openFile(path, 'r');
  try {
    return await readTail(handle);
  } finally {
    await handle.close();
  }
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

describe('the end of a file', () => {
  const last = headOf(lines.at(-1));
  const forged = `${(lines.at(-1) ?? '').replace('answered', 'unknown!').slice(0, -2)} }\n`;
  const partOfStart = '{"audit":"start","se';
  const zeros = '\0'.repeat(300_000);
  it.each<[string, string, string, string | undefined, boolean]>([
    ['is a whole record', whole, '', undefined, false],
    ['is a record without its line feed', whole.slice(0, -1), '', undefined, true],
    ['is part of a record', whole, '{"audit":', '{"audit":', true],
    ['is part of a record that a process ended', whole, '{"audit":\n', '{"audit":', false],
    ['is two such parts', whole, '{"audit":\n{"au', '{"audit":\n{"au', true],
    [
      'is three such parts',
      whole,
      `{"audit":"res\n${partOfStart}\n{`,
      `{"audit":"res\n${partOfStart}\n{`,
      true,
    ],
    ['is zeros after a power failure', whole, '\0'.repeat(9), '\0'.repeat(9), true],
    ['is zeros and a part after a power failure', whole, '\0\0"seq":', '\0\0"seq":', true],
    ['is many zeros after a power failure', whole, zeros, zeros, true],
    ['is many zeros that a process ended', whole, `${zeros}\n`, zeros, false],
    ['is part of its first record', '', '{"audit":"start","s', '{"audit":"start","s', true],
    [
      'is two parts of its first record',
      '',
      `${partOfStart}\n${partOfStart}`,
      `${partOfStart}\n${partOfStart}`,
      true,
    ],
    ['is zeros in place of its first record', '', zeros, zeros, true],
  ])('%s', async (_name, before, rest, torn, isOpen) => {
    expect(summaryOf(await tailOf(before + rest))).toEqual({
      last: before === '' ? undefined : last,
      ...(torn === undefined ? {} : { torn: { torn: torn.length, tornSha256: sha256(torn) } }),
      isOpen,
    });
  });

  it.each([
    ['a line of text', 'hello\n'],
    ['an empty line', '\n'],
    ['a record whose bytes are another way to write it', forged],
    ['such a record without a line feed', forged.trimEnd()],
    ['a line with a seal', `{"audit":"result",,"mac":"${'0'.repeat(64)}"}\n`],
    ['a line with something after its seal', `{"audit":"result","mac":"${'0'.repeat(64)}"}?`],
    ['a record without a seal', '{"audit":"result","request":"a"}\n'],
    ['two parts of records that were not the first of their process', '{"audit":"int\n{"audit":"int\n'],
    ['a record after part of one', `{"audit":"int\n${forged}`],
    ['a record before part of one', `${forged}{"audit":"int`],
    ['many lines', '{"audit":"result"}\n'.repeat(1_000)],
    ['more lines than are searched at once', '{"audit":"result"}\n'.repeat(30_000)],
    ['a long line', `{"audit":"${'x'.repeat(300_000)}`],
    ['zeros and something else', `${zeros}x`],
    ['something else and zeros', `x${zeros}`],
  ])('that no crash leaves is damaged: %s', async (_name, text) => {
    expect(summaryOf(await tailOf(whole + text))).toEqual({
      last,
      damaged: text.length,
      isOpen: !text.endsWith('\n'),
    });
  });

  it.each([
    '{"audit":"other","s',
    '{"audit":"start","x":1}',
    '\n{"audit":"start","s',
    '\n',
    'x'.repeat(300_000),
  ])('is no trail without a record or the beginning of one', async (text) => {
    expect(await tailOf(text)).toBeUndefined();
  });

  it('is found if the record is the only one', async () => {
    expect(summaryOf(await tailOf(lines[0] ?? ''))).toEqual({ last: headOf(lines[0]), isOpen: false });
  });

  it('is found wherever the record is among the parts that are read', async () => {
    for (let bytes = 65_200; bytes <= 65_700; bytes += 7) {
      expect(summaryOf(await tailOf(`${whole}${'\0'.repeat(bytes)}`))).toMatchObject({
        last,
        torn: { torn: bytes },
      });
    }
  });

  it('is no record that begins within a longer line', async () => {
    const record = lines.at(-1)?.trimEnd() ?? '';
    const padding = 'x'.repeat(2 * 65_536 - record.length);
    expect(summaryOf(await tailOf(`${whole}${padding}${padding}${record}`))).toMatchObject({ last });
  });
});

/** Of the last record, its head. */
function summaryOf(tail: Tail | undefined) {
  if (tail === undefined) return undefined;
  const { torn, ...rest } = tail;
  return { ...rest, last: head(tail), ...(torn && { torn: torn.fields }) };
}

function head({ last }: Tail) {
  return last && { sequence: last.record.sequence, mac: last.record.mac };
}

describe('a file that was', () => {
  it('renamed is opened again under its path, after a second or on a signal', async () => {
    const { file } = await open();
    await write(file, 'a\n');
    renameSync(path, `${path}.1`);
    expect(await file.refresh()).toBe(false);
    expect(await file.refresh(true)).toBe(true);
    await write(file, 'b\n');
    expect([content(`${path}.1`), content()]).toEqual(['a\n', 'b\n']);
    renameSync(path, `${path}.2`);
    now += 999;
    expect(await file.refresh()).toBe(false);
    now += 1;
    expect(await file.refresh()).toBe(true);
  });

  it('removed is created again', async () => {
    const { file } = await open();
    rmSync(path);
    expect(await file.refresh(true)).toBe(true);
    expect(existsSync(path)).toBe(true);
  });

  it('removed with its directory is an error, until the directory is back', async () => {
    const { file } = await open();
    folder.remove();
    await expect(file.refresh(true)).rejects.toThrow(/ENOENT/);
    await expect(file.refresh()).rejects.toThrow(/ENOENT/);
    folder = new Folder();
  });

  it('renamed stays in use if there is no way to a new one, which is reported once', async () => {
    const { file } = await open();
    renameSync(path, `${path}.1`);
    writeFileSync(path, 'something');
    expect(await file.refresh(true)).toBe(false);
    expect(await file.refresh(true)).toBe(false);
    expect(reopenFailures).toEqual([
      expect.objectContaining({ message: expect.stringMatching(/not empty/) }),
    ]);
    expect(descriptorsOf(path)).toEqual([]);
    await write(file, 'a\n');
    expect(content(`${path}.1`)).toBe('a\n');
    rmSync(path);
    expect(await file.refresh(true)).toBe(true);
  });

  it('renamed and cannot be closed is not used again, which is reported', async () => {
    const { file, fault } = await openWithFaultyClose();
    renameSync(path, `${path}.1`);
    expect(await file.refresh(true)).toBe(true);
    expect([closeFailures, reopenFailures]).toEqual([[fault], []]);
    await write(file, 'a\n');
    expect([content(`${path}.1`), content()]).toEqual(['', 'a\n']);
    await file.close();
  });

  it('not renamed is not opened again', async () => {
    const { file } = await open();
    expect(await file.refresh(true)).toBe(false);
  });
});
