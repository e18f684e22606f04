import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { statusSchemaFile } from '../../scripts/docs/status-schema.ts';
import { describePng } from '../../scripts/pictures/png.ts';
import { digestKeyword, pictureWidth, statusPictures } from '../../scripts/status-pictures.ts';
import { root } from '../support/sources.ts';
import { troubleStatus } from '../support/status.ts';
import { pageDigest } from '../support/status-page.ts';

describe('docs/status.schema.json', () => {
  const text = readFileSync(join(root, 'docs/status.schema.json'), 'utf8');
  const ajv = new Ajv2020();
  addFormats.default(ajv);
  const validate = ajv.compile(JSON.parse(text));

  it('is current (npm run generate)', () => {
    expect(statusSchemaFile()).toBe(text);
  });

  it.each([
    ['accepts a status', {}, true],
    ['rejects another field', { more: 1 }, false],
    ['rejects a time that is none', { at: 'yesterday' }, false],
    ['rejects a missing section', { health: undefined }, false],
  ])('%s', (_what, change, isValid) => {
    expect(validate(JSON.parse(JSON.stringify({ ...troubleStatus(), ...change })))).toBe(isValid);
  });
});

it.each(statusPictures)(
  '$file shows the whole page as it is now (npm run generate, with Chromium), in less than 200 KiB',
  ({ file, status }) => {
    const png = readFileSync(file);
    const { width, height, texts } = describePng(png);
    expect(texts.get(digestKeyword)).toBe(pageDigest(status));
    expect(width).toBe(pictureWidth);
    expect(height).toBeGreaterThan(1_000);
    expect(png.length).toBeLessThan(200 * 1024);
  },
);

it('the page of the documentation shows these pictures, and there is no other', () => {
  const files = statusPictures.map(({ file }) => basename(file));
  expect(readdirSync('docs/pictures').toSorted()).toEqual(files.toSorted());
  const text = readFileSync('docs/status.md', 'utf8');
  for (const file of files) expect(text).toContain(`"pictures/${file}"`);
});
