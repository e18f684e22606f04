import { afterAll, beforeAll, type it } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import { findChromium, noChromium, openRecorded, type RecordedPage, startChromium } from './browser.ts';
import { itWhere } from './requires.ts';

/** A browser for the tests of a file, which skip with a message where there is none. */
export function chromiumTests(): {
  readonly itInChromium: typeof it | typeof it.skip;
  readonly open: (url: string) => Promise<RecordedPage>;
} {
  const chromium = findChromium();
  let browser: Browser;
  beforeAll(async () => {
    if (chromium !== undefined) browser = await startChromium(chromium);
  });
  afterAll(() => browser?.close());
  return {
    itInChromium: itWhere(chromium !== undefined, noChromium),
    open: (url) => openRecorded(browser, url),
  };
}
