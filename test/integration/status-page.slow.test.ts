import { afterEach, describe, expect } from '@jest/globals';
import type { Page } from 'puppeteer-core';
import { withFindings } from '../../src/observability/status/schema.ts';
import { overflow, type RecordedPage, schemes, textOf, view, violations } from '../support/browser.ts';
import { chromiumTests } from '../support/chromium.ts';
import { tokenCredential } from '../support/config.ts';
import { harness } from '../support/harness.ts';
import {
  ago,
  calmStatus,
  crowdedStatus,
  emptyStatus,
  failedRequest,
  hostileStatus,
  rotationStatus,
  type Status,
  troubleStatus,
} from '../support/status.ts';
import { type ServedPage, servePage } from '../support/status-page.ts';
import { until } from '../support/until.ts';

const { itInChromium, open } = chromiumTests();
const starts = harness();
let opened: RecordedPage | undefined;

afterEach(() => opened?.page.close());

async function show(status: Status, query = '', width = 1280): Promise<{ served: ServedPage; page: Page }> {
  const served = starts.closing(await servePage(status));
  opened = await open(`${served.url}/${query}`);
  await view(opened.page, 'light', width);
  return { served, page: opened.page };
}

/** The same some seconds later. */
const later = (status: Status, seconds: number): Status => ({ ...status, at: ago(-seconds) });

const timeOf = (page: Page): Promise<string> => textOf(page, '#updates time');

async function untilUpdated(page: Page): Promise<void> {
  const before = await timeOf(page);
  await until(async () => (await timeOf(page)) !== before, 'an update');
}

const count = async (page: Page, selector: string): Promise<number> => (await page.$$(selector)).length;

const attack = `</td></table><script>alert(1)</script><img src=x onerror=alert(1)>"'\u202e`;

describe.each([
  ['empty', emptyStatus()],
  ['rotation', rotationStatus()],
  ['trouble', troubleStatus()],
  ['hostile names of 400 characters', hostileStatus(`${attack}${'x'.repeat(400)}`)],
])('the status page: %s', (_name, status) => {
  itInChromium.each(schemes)(
    'fits and is accessible at every width in the %s scheme',
    async (scheme) => {
      const { page, served } = await show(status, '?refresh=off');
      for (const width of [320, 390, 900, 1280, 1920]) {
        await view(page, scheme, width);
        expect({ width, wider: await overflow(page) }).toEqual({ width, wider: 0 });
        // Cards, tables that have to be scrolled, and tables that fit.
        if ([390, 900, 1280].includes(width)) expect(await violations(page)).toEqual([]);
      }
      expect(opened?.errors).toEqual([]);
      expect(opened?.requests).toEqual([`${served.url}/?refresh=off`]);
    },
    60_000,
  );
});

describe('30 environments, 200 keys and 100 failed requests', () => {
  itInChromium.each([
    [1280, 3_000],
    [390, 8_000],
  ])('are no endless column at %d pixels: those that need attention are in sight', async (width, most) => {
    const { page } = await show(crowdedStatus(), '?refresh=off', width);
    expect(await page.evaluate('document.documentElement.scrollHeight')).toBeLessThan(most);
    const [environments, keys, failures] = await Promise.all(
      ['environments', 'keys', 'failures'].map((id) => textOf(page, `#${id}`)),
    );
    expect(environments).toMatch(/region-17 .* region-21 .* 20 more environments$/);
    expect(keys).toMatch(/ Rejected by the gateway .* Waiting for the gateway .* \d+ more versions$/);
    expect(failures).toMatch(/ 90 more failed requests$/);
  });
});

describe('an update', () => {
  itInChromium('keeps focus, scroll positions and what is unfolded', async () => {
    const status = crowdedStatus();
    const { page, served } = await show(status, '', 390);
    await page.click('#keys summary');
    await page.$eval('#keys details .scroll', (box) => box.scrollTo(0, 2_000));
    const id = `request ${status.failures[4]?.requestId} ${status.failures[4]?.at}`;
    await page.focus(`[id="${id}"]`);
    const places = `[document.activeElement.id, scrollY, document.querySelector('#keys details .scroll').scrollTop]`;
    const before = await page.evaluate(places);
    expect(before).toEqual([id, expect.any(Number), 2_000]);
    const failure = failedRequest({ at: ago(-4), requestId: 'one-that-is-new' });
    served.show(withFindings({ ...later(status, 5), failures: [failure, ...status.failures.slice(0, -1)] }));
    await untilUpdated(page);
    expect(await textOf(page, '#failures tbody tr')).toContain('one-that-is-new');
    expect(await page.evaluate(places)).toEqual(before);
    await page.focus('#keys summary');
    await page.keyboard.press('Enter');
    served.show(later(status, 10));
    await untilUpdated(page);
    expect(
      await page.evaluate('[document.activeElement.id, document.activeElement.parentElement.open]'),
    ).toEqual(['keys-more', false]);
  });

  itInChromium('adds nothing but text, whatever the names are', async () => {
    const { page, served } = await show(calmStatus());
    for (const [index, text] of [attack, 'x', attack].entries()) {
      served.show(later(hostileStatus(text), 5 + index));
      await untilUpdated(page);
      expect(await count(page, 'img, body script')).toBe(0);
    }
    expect(await textOf(page, '#callers')).toContain('<img src=x onerror=alert(1)>');
    expect(await page.title()).toBe('Not ready · Countersign status');
    expect(opened?.errors).toEqual([]);
    expect(new Set(opened?.requests)).toEqual(new Set([`${served.url}/`]));
  });

  itInChromium('can be paused and resumed', async () => {
    const { page } = await show(calmStatus());
    await page.click('#updates a');
    await page.waitForSelector('#updates a[href="?"]');
    expect(await textOf(page, '#updates')).toBe('2026-11-22 14:03:07 UTC · paused · Resume updates');
    await page.click('#updates a');
    await page.waitForSelector('#updates a[href="?refresh=off"]');
  });

  itInChromium('works where the address has the token, until that is no longer accepted', async () => {
    const token = 'the-token-of-the-operators-0815';
    const { tokenSha256 } = tokenCredential(token);
    const proxy = await starts.proxy({ config: { admin: { port: 0, tokenSha256 } } });
    opened = await open(proxy.adminUrl.replace('//', `//operator:${token}@`));
    await untilUpdated(opened.page);
    await untilUpdated(opened.page);
    await proxy.reload({ admin: { port: 0, ...tokenCredential('next-token') } });
    expect(await notice(opened.page)).toContain(': HTTP status 401. Reload the page.');
  });
});

/** What the page says while it is old: in words, in the title and by color. */
async function notice(page: Page): Promise<string> {
  await page.waitForSelector('#stale:not([hidden])');
  expect(await page.title()).toBe('Not updated · Countersign status');
  expect(await textOf(page, '#updates')).not.toContain('every');
  expect(await page.evaluate(`getComputedStyle(document.querySelector('main')).filter`)).toBe('grayscale(1)');
  return textOf(page, '#stale');
}

describe('without an update the page does not look live', () => {
  itInChromium('while the instance is gone, and continues when it is back', async () => {
    const { page, served } = await show(calmStatus());
    await served.close();
    expect(await notice(page)).toBe(
      'Not updated since 2026-11-22 14:03:07 UTC: the instance does not respond.',
    );
    expect(await violations(page)).toEqual([]);
    starts.closing(await servePage(later(calmStatus(), 9), Number(new URL(served.url).port)));
    await page.waitForSelector('#stale', { hidden: true });
    expect(await page.title()).toBe('Ready · Countersign status');
    expect(await timeOf(page)).toBe('2026-11-22 14:03:16');
  });

  itInChromium.each([
    [{ status: 500, body: 'failed' }, 'HTTP status 500. Reload the page.'],
    // Without a response the request hangs.
    [undefined, 'the instance does not respond.'],
  ])('if the response is %j', async (response, text) => {
    const { page } = await show(calmStatus());
    await page.setRequestInterception(true);
    page.on('request', (request) => void (response && request.respond(response)));
    expect(await notice(page)).toContain(text);
  });

  itInChromium('while text is selected, so that it can be copied', async () => {
    const { page } = await show(calmStatus());
    await page.click('#failures .code', { count: 2 });
    expect(await notice(page)).toContain('text is selected.');
    expect(await page.evaluate('getSelection().isCollapsed')).toBe(false);
    await page.click('h1');
    await page.waitForSelector('#stale', { hidden: true });
  });
});

itInChromium('another version is loaded with its own style and script', async () => {
  const { page } = await show(calmStatus());
  await page.evaluate(`document.documentElement.dataset.code = 'of another version'`);
  await page.waitForNavigation();
  expect(await page.evaluate('document.documentElement.dataset.code')).not.toContain('another');
});

itInChromium('without scripts the page loads itself again', async () => {
  const served = starts.closing(await servePage(calmStatus()));
  opened = await open('about:blank');
  const { page } = opened;
  await page.setJavaScriptEnabled(false);
  await page.goto(served.url);
  served.show(later(calmStatus(), 5));
  await page.waitForNavigation();
  expect(await timeOf(page)).toBe('2026-11-22 14:03:12');
});
