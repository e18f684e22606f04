import { chownSync, mkdirSync, symlinkSync } from 'node:fs';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { findRunningDemo } from '../../../../src/cli/demo/ready-file.ts';
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
