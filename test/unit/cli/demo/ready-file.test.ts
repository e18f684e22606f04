import { spawnSync } from 'node:child_process';
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  utimesSync,
} from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  announce,
  findDemo,
  findRunningDemo,
  removeStaleReadyFile,
  settingsOf,
} from '../../../../src/cli/demo/ready-file.ts';
import { Folder } from '../../../support/folder.ts';
import { itWhere } from '../../../support/requires.ts';

const demo = {
  proxyUrl: 'P',
  adminUrl: 'A',
  gatewayUrl: 'G',
  gatewayAdminUrl: 'GA',
  keyDirectory: 'K',
  pid: process.pid,
};
let folder: Folder;
beforeEach(() => {
  folder = new Folder();
});
afterEach(() => folder.remove());

it('finds the demo that runs', () => {
  expect(findRunningDemo([folder.path])).toBeUndefined();
  mkdirSync(folder.at('countersign-keys-1'));
  folder.file('countersign-keys-1/demo.json', JSON.stringify(demo));
  expect(findRunningDemo([folder.at('missing'), folder.path])).toEqual(demo);
});

it('finds the demo that was started last, of those that run', () => {
  const { pid: ended } = spawnSync('true');
  const demos = [
    { ...demo, proxyUrl: 'first' },
    { ...demo, proxyUrl: 'last' },
    { ...demo, proxyUrl: 'ended', pid: ended },
    { ...demo, proxyUrl: 'none', pid: undefined },
  ];
  for (const [index, one] of demos.entries()) {
    mkdirSync(folder.at(`countersign-keys-${index}`));
    const file = folder.file(`countersign-keys-${index}/demo.json`, JSON.stringify(one));
    utimesSync(file, index, index);
  }
  expect(findRunningDemo([folder.path])).toMatchObject({ proxyUrl: 'last' });
});

it('the demo of a file is the one that runs, or an error', () => {
  const file = folder.file('ready.json', JSON.stringify(demo));
  expect(findDemo(file)).toEqual(demo);
  for (const other of [folder.file('other.json', '{"pid":1}'), folder.at('missing')])
    expect(() => findDemo(other)).toThrow(
      `${other} is not the ready file of a running demo: start one with countersign demo --ready-file ${other}`,
    );
});

describe('a ready file', () => {
  const announced = (pid: number, readyFile?: string) =>
    announce({ ...demo, pid, keyDirectory: folder.path }, { scenarioText: 'logins: { a: {} }\n', readyFile });

  it('is written for its owner only, with the scenario beside the keys', async () => {
    const readyFile = folder.at('ready.json');
    announced(process.pid, readyFile);
    const content = readFileSync(readyFile, 'utf8');
    expect(JSON.parse(content)).toEqual({ ...demo, keyDirectory: folder.path });
    expect(readFileSync(folder.at('demo.json'), 'utf8')).toBe(content);
    const modes = [readyFile, folder.at('demo.json'), folder.at('scenario.yaml')].map(
      (file) => statSync(file).mode & 0o777,
    );
    expect(modes).toEqual([0o600, 0o600, 0o600]);
    expect((await settingsOf({ ...demo, keyDirectory: folder.path })).scenario.logins).toEqual({ a: {} });
  });

  it('is deleted at the end, unless another demo has replaced it', () => {
    const readyFile = folder.at('ready.json');
    const withdraw = announced(1, readyFile);
    const withdrawOther = announced(2, readyFile);
    withdraw();
    expect(existsSync(readyFile)).toBe(true);
    withdrawOther();
    expect(existsSync(readyFile)).toBe(false);
  });

  it('that cannot be written is an error, and leaves no part of one', () => {
    mkdirSync(folder.at('directory'));
    for (const readyFile of [folder.at('missing/ready.json'), folder.at('directory')])
      expect(() => announced(1, readyFile)).toThrow(`--ready-file ${readyFile} cannot be written: `);
    expect(readdirSync(folder.path).toSorted()).toEqual(['demo.json', 'directory', 'scenario.yaml']);
  });

  it('of an earlier demo is deleted, also one that is still empty', () => {
    for (const content of [JSON.stringify({ ...demo, pid: 1 }), '']) {
      removeStaleReadyFile(folder.file('ready.json', content));
      expect(existsSync(folder.at('ready.json'))).toBe(false);
    }
    removeStaleReadyFile(folder.at('ready.json'));
  });

  it('is not what has another content, or is a link or a directory', () => {
    mkdirSync(folder.at('directory'));
    symlinkSync(folder.file('ready.json', JSON.stringify(demo)), folder.at('link'));
    for (const file of [folder.at('directory'), folder.at('link'), folder.file('other.json', '{}')]) {
      expect(() => removeStaleReadyFile(file)).toThrow(
        expect.objectContaining({
          message: `--ready-file ${file} exists and is not a ready file. Delete it, or choose another path.`,
          exit: 2,
        }),
      );
      expect(existsSync(file)).toBe(true);
    }
  });
});

itWhere(process.getuid?.() === 0, 'not root, so no directory can be given to another user')(
  'finds none where another user decides which file it is',
  () => {
    const file = folder.file('saved.json', JSON.stringify(demo));
    mkdirSync(folder.at('countersign-keys-1'));
    symlinkSync(file, folder.at('countersign-keys-1/demo.json'));
    expect(findRunningDemo([folder.path])).toEqual(demo);
    chownSync(folder.at('countersign-keys-1'), 65_534, 65_534);
    expect(findRunningDemo([folder.path])).toBeUndefined();
  },
);

itWhere(process.getuid?.() === 0, 'not root, so no file can be given to another user')(
  'finds none in the file of another user',
  () => {
    mkdirSync(folder.at('countersign-keys-1'));
    const file = folder.file('countersign-keys-1/demo.json', JSON.stringify(demo));
    chownSync(file, 65_534, 65_534);
    expect(findRunningDemo([folder.path])).toBeUndefined();
    chownSync(file, 0, 0);
    expect(findRunningDemo([folder.path])).toEqual(demo);
  },
);

it('finds none behind a link, which any user can place among temporary files', () => {
  mkdirSync(folder.at('own'));
  folder.file('own/demo.json', JSON.stringify(demo));
  symlinkSync(folder.at('own'), folder.at('countersign-keys-1'));
  expect(findRunningDemo([folder.path])).toBeUndefined();
});
