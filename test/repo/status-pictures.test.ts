import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { describePng } from '../../scripts/pictures/png.ts';
import { digestKeyword, pictureWidth, statusPictures } from '../../scripts/status-pictures.ts';
import { pageDigest } from '../support/status-page.ts';

describe.each(statusPictures)('$file', ({ file, status }) => {
  const png = readFileSync(file);
  const { width, height, texts } = describePng(png);

  it('shows the page as it is now (npm run generate, with Chromium)', () => {
    expect(texts.get(digestKeyword)).toBe(pageDigest(status));
  });

  it('is as wide as a laptop, shows the whole page, and has less than 200 KiB', () => {
    expect(width).toBe(pictureWidth);
    expect(height).toBeGreaterThan(1_000);
    expect(png.length).toBeLessThan(200 * 1024);
  });
});

it('no other picture of the page is left', () => {
  const files = statusPictures.map(({ file }) => basename(file));
  expect(readdirSync('docs/pictures').toSorted()).toEqual(files.toSorted());
});

it('the page of the documentation shows the page in both color schemes', () => {
  const text = readFileSync('docs/status.md', 'utf8');
  for (const { file } of statusPictures) expect(text).toContain(`"pictures/${basename(file)}"`);
});
