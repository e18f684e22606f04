import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { startOnly } from '../../src/service/reload.ts';

const page = readFileSync(new URL('../../docs/configuration.md', import.meta.url), 'utf8');

it('lists every field that needs a restart, and no other', () => {
  const [, sentence = ''] = /Fields that\s+need a restart are ([^]*?):/.exec(page) ?? [];
  const listed = [...sentence.matchAll(/`([^`]+)`/g)].map(([, field = '']) => field);
  expect(listed.toSorted()).toEqual(Object.keys(startOnly).toSorted());
});
