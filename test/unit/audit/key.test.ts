import { inspect } from 'node:util';
import { expect, it } from '@jest/globals';
import { readAuditKey } from '../../../src/audit/key.ts';
import { Folder } from '../../support/folder.ts';

it.each([
  ['31 bytes', 'k'.repeat(31)],
  ['31 bytes and a line feed', `${'k'.repeat(31)}\n`],
  ['nothing', ''],
])('a file with %s is no key', async (_name, text) => {
  const folder = new Folder();
  const file = folder.file('key', text);
  await expect(readAuditKey(file)).rejects.toThrow(`${file} has ${text.trim().length} bytes`);
  await expect(readAuditKey(file)).rejects.toThrow(/a key needs at least 32/);
  folder.remove();
});

it('line ends after the key do not matter, other bytes do', async () => {
  const folder = new Folder();
  const text = 'k'.repeat(32);
  const ids = await Promise.all(
    [text, `${text}\n`, `${text}\r\n`, `${text} `, `\n${text}`].map(
      async (content, at) => (await readAuditKey(folder.file(`key-${at}`, content))).id,
    ),
  );
  expect(new Set(ids).size).toBe(3);
  expect(new Set(ids.slice(0, 3)).size).toBe(1);
  folder.remove();
});

it('a key is hidden from everything that prints', async () => {
  const folder = new Folder();
  const text = 'mark-of-an-audit-key-'.repeat(2);
  const key = await readAuditKey(folder.file('key', text));
  for (const printed of [JSON.stringify(key), inspect(key, { depth: 9, showHidden: true })]) {
    expect(printed).not.toContain('mark');
    expect(printed).not.toContain(Buffer.from(text).toString('hex'));
  }
  folder.remove();
});
