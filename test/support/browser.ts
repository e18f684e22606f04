import { existsSync } from 'node:fs';
import axe from 'axe-core';
import { type Browser, launch, type Page } from 'puppeteer-core';
import { z } from 'zod';
import { findProgram } from './find-program.ts';

const lines = z.array(z.string());

/** The Chromium of `CHROMIUM_BIN`, or the first on the path. */
export function findChromium(): string | undefined {
  const chosen = process.env['CHROMIUM_BIN'];
  if (chosen !== undefined && existsSync(chosen)) return chosen;
  return findProgram('chromium', 'chromium-browser', 'google-chrome');
}

/** For the message where it is missing. */
export const noChromium = 'chromium is not installed (Debian package chromium; or set CHROMIUM_BIN)';

/** Without its own services, so that all requests are those of a page. Root needs `--no-sandbox`. */
export function startChromium(executablePath: string): Promise<Browser> {
  const args = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-proxy-server'];
  return launch({ executablePath, args, headless: true });
}

export const schemes = ['light', 'dark'] as const;
export type Scheme = (typeof schemes)[number];

/** Shows a page in this color scheme. @param width and height: CSS pixels */
export async function view(page: Page, scheme: Scheme, width: number, height = 900): Promise<void> {
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
  await page.setViewport({ width, height });
}

/** A page whose errors and requests are recorded. */
export interface RecordedPage {
  readonly page: Page;
  /** Messages of the console and uncaught errors. */
  readonly errors: string[];
  /** URLs, but not `data:`. */
  readonly requests: string[];
}

export async function openRecorded(browser: Browser, url: string): Promise<RecordedPage> {
  const page = await browser.newPage();
  const errors: string[] = [];
  const requests: string[] = [];
  page.on('console', (message) => errors.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('dialog', (dialog) => {
    errors.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    if (!request.url().startsWith('data:')) requests.push(request.url());
  });
  await page.goto(url);
  return { page, errors, requests };
}

/** What violates a rule of axe-core, one line for each element. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  return lines.parse(
    await page.evaluate(`axe.run().then(({ violations }) => violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => id + ': ' + html + ' ' + failureSummary)))`),
  );
}

/** By how many pixels the page is wider than its window. */
export async function overflow(page: Page): Promise<number> {
  return Number(await page.evaluate('document.documentElement.scrollWidth - innerWidth'));
}

/** The text of an element as it is laid out, without line breaks. */
export async function textOf(page: Page, selector: string): Promise<string> {
  const text = await page.evaluate(`document.querySelector(${JSON.stringify(selector)}).innerText`);
  return String(text).replaceAll(/\s+/g, ' ');
}
