import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { inflateSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import { describePng, encodePng } from '../../scripts/pictures/png.ts';
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

describe('a picture', () => {
  const encode = (colors: readonly number[]): Buffer =>
    encodePng(
      {
        width: 2,
        height: colors.length / 2,
        rgba: Uint8Array.from(colors.flatMap((color) => [color, 0, 0, 255])),
      },
      ['Page', 'digest'],
    );

  it('has the size and the text that it was made with', () => {
    expect(describePng(encode([1, 2, 3, 4, 5, 6]))).toEqual({
      width: 2,
      height: 3,
      texts: new Map([['Page', 'digest']]),
    });
  });

  /** The red of each pixel, read back. */
  function redsOf(png: Buffer): number[] {
    const dataOf = (type: string): Buffer => {
      const at = png.indexOf(type) + 4;
      return png.subarray(at, at + png.readUInt32BE(at - 8));
    };
    const rows = [...inflateSync(dataOf('IDAT'))];
    return rows.filter((_, index) => index % 3 > 0).map((index) => dataOf('PLTE')[3 * index] ?? 0);
  }

  it('has the colors of its pixels', () => {
    const colors = Array.from({ length: 256 }, (_, index) => index).toReversed();
    expect(redsOf(encode(colors))).toEqual(colors);
  });

  it('of more colors than fit has the most frequent ones, and for another the nearest', () => {
    const greens = Array.from({ length: 300 }, (_, index) => [index % 256, index < 256 ? 0 : 3, 0, 255]);
    const frequent = greens.slice(0, 256);
    const rgba = Uint8Array.from([...frequent, ...greens].flat());
    const png = encodePng({ width: 2, height: rgba.length / 8, rgba }, ['Page', 'digest']);
    expect(redsOf(png)).toEqual([...frequent, ...greens].map(([red]) => red));
  });

  it('is not anything else', () => {
    expect(() => describePng(Buffer.from('GIF89a, which has no size here'))).toThrow(TypeError);
  });
});
