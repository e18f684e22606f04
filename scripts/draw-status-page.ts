import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { Browser } from 'puppeteer-core';
import { findChromium, noChromium, startChromium, view } from '../test/support/browser.ts';
import { pageDigest, servePage } from '../test/support/status-page.ts';
import { describePng, encodePng, type Pixels } from './pictures/png.ts';
import { digestKeyword, pictureWidth, type StatusPicture, statusPictures } from './status-pictures.ts';

// Draws only the pictures whose page has changed: fonts differ between machines, and so would the pictures.
const outdated = statusPictures.filter((picture) => digestIn(picture) !== pageDigest(picture.status));
const chromium = findChromium();
if (outdated.length > 0 && chromium === undefined) {
  process.stderr.write(`not drawn: ${outdated.map(({ file }) => file).join(', ')}: ${noChromium}\n`);
} else if (outdated.length > 0 && chromium !== undefined) {
  const browser = await startChromium(chromium);
  for (const picture of outdated) {
    const png = encodePng(await draw(browser, picture), [digestKeyword, pageDigest(picture.status)]);
    writeFileSync(picture.file, png);
  }
  await browser.close();
}

function digestIn({ file }: StatusPicture): string | undefined {
  return existsSync(file) ? describePng(readFileSync(file)).texts.get(digestKeyword) : undefined;
}

async function draw(browser: Browser, { status, scheme }: StatusPicture): Promise<Pixels> {
  const { url, close } = await servePage(status);
  const page = await browser.newPage();
  await view(page, scheme, pictureWidth);
  await page.goto(url);
  const png = Buffer.from(await page.screenshot({ fullPage: true }));
  await page.goto('about:blank');
  // Chromium decodes it too.
  const rgba = await page.evaluate(`(async () => {
    const image = new Image();
    image.src = 'data:image/png;base64,${png.toString('base64')}';
    await image.decode();
    const context = new OffscreenCanvas(image.width, image.height).getContext('2d');
    context.drawImage(image, 0, 0);
    return new Uint8Array(context.getImageData(0, 0, image.width, image.height).data.buffer).toBase64();
  })()`);
  await Promise.all([page.close(), close()]);
  const { width, height } = describePng(png);
  return { width, height, rgba: Buffer.from(String(rgba), 'base64') };
}
