import { crc32, deflateSync } from 'node:zlib';

export interface Pixels {
  readonly width: number;
  readonly height: number;
  /** Red, green, blue and opacity of each pixel; the opacity is not kept. */
  readonly rgba: Uint8Array;
}

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const maxColors = 256;

/**
 * A PNG with a palette, which is a third of the size of Chromium's. The rarest colors, shades at the edges of letters,
 * become the nearest of the others.
 *
 * @param text keyword and value of a tEXt chunk
 * @see https://www.w3.org/TR/png-3/
 */
export function encodePng(
  { width, height, rgba }: Pixels,
  [keyword, value]: readonly [string, string],
): Buffer {
  const pixels = new DataView(rgba.buffer, rgba.byteOffset);
  const colors = new Uint32Array(width * height).map((_, pixel) => pixels.getUint32(4 * pixel) >>> 8);
  const { palette, indexOf } = paletteOf(colors);
  const rows = Buffer.alloc((width + 1) * height);
  colors.forEach((color, pixel) => {
    // Each row starts with its filter: none.
    rows[pixel + Math.floor(pixel / width) + 1] = indexOf.get(color) ?? 0;
  });
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  // 8 bits per pixel, which are an index of the palette.
  header.set([8, 3], 8);
  return Buffer.concat([
    signature,
    chunk('IHDR', header),
    chunk('tEXt', Buffer.from(`${keyword}\0${value}`, 'latin1')),
    chunk('PLTE', Buffer.from(palette.flatMap(channels))),
    chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

/** Size and texts of a PNG. @throws TypeError if it is none */
export function describePng(png: Buffer): { width: number; height: number; texts: Map<string, string> } {
  if (!png.subarray(0, 8).equals(signature)) throw new TypeError('not a PNG');
  const texts = new Map<string, string>();
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
    if (png.toString('latin1', at + 4, at + 8) !== 'tEXt') continue;
    const [keyword = '', value = ''] = png
      .toString('latin1', at + 8, at + 8 + png.readUInt32BE(at))
      .split('\0');
    texts.set(keyword, value);
  }
  return { width: png.readUInt32BE(16), height: png.readUInt32BE(20), texts };
}

function paletteOf(colors: Uint32Array): { palette: number[]; indexOf: Map<number, number> } {
  const counts = new Map<number, number>();
  for (const color of colors) counts.set(color, (counts.get(color) ?? 0) + 1);
  const byCount = [...counts].sort(([, one], [, other]) => other - one).map(([color]) => color);
  const palette = byCount.slice(0, maxColors);
  const nearest = (color: number): number =>
    palette.reduce(
      (best, one, index) => (distance(one, color) < distance(palette[best] ?? 0, color) ? index : best),
      0,
    );
  return { palette, indexOf: new Map(byCount.map((color) => [color, nearest(color)])) };
}

function distance(one: number, other: number): number {
  const others = channels(other);
  return channels(one).reduce((sum, value, channel) => sum + (value - (others[channel] ?? 0)) ** 2, 0);
}

const channels = (color: number): number[] => [color >> 16, (color >> 8) & 0xff, color & 0xff];

function chunk(type: string, data: Buffer): Buffer {
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
  const content = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  length.writeUInt32BE(data.length);
  checksum.writeUInt32BE(crc32(content));
  return Buffer.concat([length, content, checksum]);
}
