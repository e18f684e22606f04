import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, launch, type Page } from 'puppeteer-core';

/** The Chromium of `CHROMIUM_BIN`, or the first on the path. */
export function findChromium(): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  const names = ['chromium', 'chromium-browser', 'google-chrome'];
  const candidates = names.flatMap((name) => folders.map((folder) => join(folder, name)));
  return [process.env['CHROMIUM_BIN'] ?? '', ...candidates].find((path) => path !== '' && existsSync(path));
}

/** Without its own services, so that the only requests are those of a page. */
export function startChromium(executablePath: string): Promise<Browser> {
  const args = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-proxy-server'];
  return launch({ executablePath, args, headless: true });
}

export const schemes = ['light', 'dark'] as const;
export type Scheme = (typeof schemes)[number];

/** Shows a page in this color scheme. @param height CSS pixels */
export async function view(page: Page, scheme: Scheme, width: number, height = 900): Promise<void> {
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
  await page.setViewport({ width, height });
}
