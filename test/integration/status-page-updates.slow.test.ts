import { afterEach, describe, expect } from '@jest/globals';
import type { Page } from 'puppeteer-core';
import { z } from 'zod';
import { withFindings } from '../../src/observability/status/findings.ts';
import type { Status } from '../../src/observability/status/schema.ts';
import { type RecordedPage, textOf, view, violations } from '../support/browser.ts';
import { chromiumTests } from '../support/chromium.ts';
import { tokenCredential } from '../support/config.ts';
import { harness } from '../support/harness.ts';
import { ago, calmStatus, crowdedStatus, failedRequest, hostileStatus } from '../support/status.ts';
import { type ServedPage, servePage } from '../support/status-page.ts';
import { until } from '../support/until.ts';

const { itInChromium, open } = chromiumTests();
const starts = harness();
let opened: RecordedPage | undefined;

afterEach(() => opened?.page.close());

/** Shows a page, which updates itself unless the query says otherwise. */
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

const height = async (page: Page): Promise<number> =>
  Number(await page.evaluate('document.documentElement.scrollHeight'));

describe('30 environments, 200 keys and 100 failed requests', () => {
  // Before they were folded: 17,416 and 71,435 pixels.
  itInChromium.each([
    [1280, 3_000],
    [390, 6_000],
  ])(
    'are no endless column at %d pixels: those that need attention are in sight',
    async (width, most) => {
      const { page } = await show(crowdedStatus(), '?refresh=off', width);
      expect(await height(page)).toBeLessThan(most);
      const [environments, keys, failures] = await Promise.all(
        ['environments', 'keys', 'failures'].map((id) => textOf(page, `#${id}`)),
      );
      expect(environments).toMatch(/region-17 .* region-21 .* 28 environments without a problem$/);
      expect(keys).toMatch(/ Rejected by the gateway .* is waiting .* 196 keys without a problem$/);
      expect(failures).toMatch(/ 90 more failed requests$/);
      expect(await count(page, '#failures > .scroll tbody tr')).toBe(10);
      const folds = await page.$$('summary');
      await folds[0]?.click();
      // With 200 unfolded keys axe-core takes long.
      expect(await violations(page)).toEqual([]);
      for (const fold of folds.slice(1)) await fold.click();
      expect(await count(page, 'details[open]')).toBe(3);
      // The rows of each scroll in its own box.
      expect(await height(page)).toBeLessThan(most + 3 * 900);
      expect(await violations(page)).toEqual([]);
    },
    60_000,
  );

  itInChromium('have versions that do not wrap', async () => {
    const status = crowdedStatus();
    const changed = Date.parse(ago(86_400 * 40)) / 1000;
    const list = status.keys.list.map((key) => ({
      ...key,
      newestVersion: changed,
      signingVersion: changed,
      versions: key.versions.map((one) => ({ ...one, version: changed })),
    }));
    const keySource = { ...status.keySource, type: 'directory' } as const;
    const { page } = await show({ ...status, keySource, keys: { total: 200, list } }, '?refresh=off');
    await page.click('#keys summary');
    for (const width of [320, 390, 900, 1280]) {
      await view(page, 'light', width);
      const lines = await page.evaluate(
        `Array.from(document.querySelectorAll('#keys b'), (one) => one.getClientRects().length + ' ' + (one.offsetHeight < 26))`,
      );
      expect({ width, lines: new Set(Object.values(Object(lines))) }).toEqual({
        width,
        lines: new Set(['1 true']),
      });
    }
  });

  itInChromium('are filtered by all words, also those that are folded', async () => {
    const { page, served } = await show(crowdedStatus(), '?refresh=off');
    await page.click('#environments summary');
    await page.type('#filter', 'MERCHANT-41 region-03 daa66');
    expect(await textOf(page, '#matches')).toBe('1 of 335 rows');
    expect(await textOf(page, '#keys')).toMatch(/^Keys in use .*merchant-41 region-03 RSA key/);
    expect(await textOf(page, '#environments')).toBe(
      'Environments Rates, shares and latencies of the last minute',
    );
    await page.keyboard.press('Enter');
    expect(page.url()).toBe(`${served.url}/?refresh=off&filter=MERCHANT-41+region-03+daa66`);
    await page.reload();
    expect(await textOf(page, '#matches')).toBe('1 of 335 rows');
    await page.click('#filter', { count: 3 });
    await page.keyboard.press('Backspace');
    expect(await textOf(page, '#matches')).toBe('');
    expect(await count(page, 'details[open]')).toBe(0);
    const fingerprint = crowdedStatus().keys.list[3]?.versions[0]?.fingerprint;
    await page.type('#filter', String(fingerprint));
    expect(await textOf(page, '#matches')).toBe('1 of 335 rows');
  });

  itInChromium('are accessible: folded, unfolded and filtered', async () => {
    const { environments, keys, failures, ...status } = crowdedStatus();
    // With all of them axe-core takes half a minute.
    const some = {
      environments: environments.slice(10, 22),
      keys: { total: 200, list: keys.list.slice(50, 62) },
      failures: failures.slice(0, 12),
    };
    const { page } = await show({ ...status, ...some }, '?refresh=off', 390);
    expect(await count(page, 'summary')).toBe(3);
    expect(await violations(page)).toEqual([]);
    await page.click('#keys summary');
    await page.type('#filter', 'merchant');
    for (const width of [390, 1280]) {
      await view(page, 'dark', width);
      expect(await violations(page)).toEqual([]);
    }
  });
});

/** Key and top of the row with the focus, and how far the unfolded keys are scrolled. */
const place = z.tuple([z.string(), z.number(), z.number()]);

describe('an update', () => {
  itInChromium('keeps focus, scroll positions, what is unfolded, and the filter', async () => {
    const status = crowdedStatus();
    const { page, served } = await show(status, '', 390);
    await page.click('#keys summary');
    await page.$eval('#keys details .scroll', (box) => box.scrollTo(0, 2_000));
    await page.type('#filter', 'e');
    const row = `#failures tr[data-key$="${status.failures[4]?.requestId}"]`;
    await page.focus(`${row} a`);
    const places = `(() => {
      const row = document.activeElement.closest('tr');
      return [row.dataset.key, Math.round(row.getBoundingClientRect().top),
        document.querySelector('#keys details .scroll').scrollTop];
    })()`;
    const before = place.parse(await page.evaluate(places));
    expect([before[0], before[2]]).toEqual([
      expect.stringContaining(String(status.failures[4]?.requestId)),
      2_000,
    ]);
    expect(await page.evaluate('scrollY')).toBeGreaterThan(1_000);
    const failure = failedRequest({ at: ago(-4), requestId: 'one-that-is-new' });
    served.show(
      withFindings({
        ...later(status, 5),
        // One more finding in the banner, and one more row.
        config: { ...status.config, reloadFailed: true },
        failures: [failure, ...status.failures.slice(0, -1)],
      }),
    );
    await untilUpdated(page);
    expect(await textOf(page, '#health')).toContain('The configuration was not reloaded');
    expect(await textOf(page, '#failures tbody tr')).toContain('one-that-is-new');
    const [key, top, inner] = place.parse(await page.evaluate(places));
    expect([key, inner]).toEqual([before[0], before[2]]);
    // Rows have fractions of a pixel.
    expect(Math.abs(top - before[1])).toBeLessThanOrEqual(1);
    expect(await page.$eval('#keys details', ({ open: isOpen }) => isOpen)).toBe(true);
    expect(await textOf(page, '#matches')).toMatch(/^\d+ of 335 rows$/);
  });

  itInChromium('keeps the focus in a table whose row is gone, and on a row that moves', async () => {
    const status = crowdedStatus();
    const { page, served } = await show(status);
    const [first, second, ...others] = status.failures;
    if (first === undefined || second === undefined) throw new Error('too few failures');
    const focused = (): Promise<unknown> =>
      page.evaluate(`document.activeElement.closest('tr')?.dataset.key ?? document.activeElement.className`);
    await page.focus(`#failures tr[data-key$="${first.requestId}"] a`);
    served.show({ ...later(status, 5), failures: [second, first, ...others] });
    await untilUpdated(page);
    expect(await focused()).toContain(first.requestId);
    served.show({ ...later(status, 10), failures: [second, ...others] });
    await untilUpdated(page);
    expect(await focused()).toBe('scroll');
  });

  itInChromium('adds nothing but text, whatever the names are', async () => {
    const attack = `</td></table><script>alert(1)</script><img src=x onerror=alert(1)>"'`;
    const { page, served } = await show(calmStatus());
    for (const [index, text] of [attack, 'x', attack].entries()) {
      served.show(later(hostileStatus(text), 5 + index));
      await untilUpdated(page);
      expect(await count(page, 'img, body script')).toBe(0);
    }
    expect(await textOf(page, '#callers')).toContain('<img src=x onerror=alert(1)>');
    expect(opened?.errors).toEqual([]);
    expect(new Set(opened?.requests)).toEqual(new Set([`${served.url}/`]));
  });

  itInChromium('can be paused and resumed without losing the place', async () => {
    const status = crowdedStatus();
    const { page, served } = await show(status);
    await page.type('#filter', 'merchant');
    await page.click('#updates a');
    await page.waitForSelector('#updates a[href="?"]');
    expect(await textOf(page, '#updates')).toMatch(/paused · Resume updates/);
    expect(page.url()).toBe(`${served.url}/?refresh=off&filter=merchant`);
    served.show(later(status, 5));
    await page.click('#updates a');
    await until(async () => (await timeOf(page)) === '14:03:12');
    expect(await textOf(page, '#updates')).toContain('updates every 5 s · Pause updates');
    expect(page.url()).toBe(`${served.url}/?filter=merchant`);
    expect(await textOf(page, '#matches')).toMatch(/ of 335 rows/);
  });

  itInChromium('works where the address has the token', async () => {
    const token = 'the-token-of-the-operators-0815';
    const { tokenSha256 } = tokenCredential(token);
    const proxy = await starts.proxy({ config: { admin: { port: 0, tokenSha256 } } });
    opened = await open(proxy.adminUrl.replace('//', `//operator:${token}@`));
    await untilUpdated(opened.page);
    await untilUpdated(opened.page);
    expect(await opened.page.$eval('#stale', ({ textContent }) => textContent)).toBe('');
  });
});

describe('without an update the page does not look live', () => {
  /** What the page says while the page is old: in words, in the title and by color. */
  async function notice(page: Page): Promise<string> {
    await page.waitForSelector('#stale:not([hidden])');
    expect(await page.title()).toBe('Not updated · Countersign status');
    expect(await textOf(page, '#updates')).not.toContain('every');
    expect(await page.evaluate(`getComputedStyle(document.querySelector('main')).filter`)).toBe(
      'grayscale(1)',
    );
    return textOf(page, '#stale');
  }

  itInChromium('while the instance is gone, and continues when it is back', async () => {
    const { page, served } = await show(calmStatus());
    await served.close();
    expect(await notice(page)).toBe(
      'Not updated since 14:03:07 UTC, so this is old. The instance does not respond.',
    );
    expect(await violations(page)).toEqual([]);
    const back = starts.closing(await servePage(later(calmStatus(), 9), Number(new URL(served.url).port)));
    await page.waitForSelector('#stale', { hidden: true });
    expect(await page.title()).toBe('Ready · Countersign status');
    expect(await timeOf(page)).toBe('14:03:16');
    await back.close();
    await page.click('#updates a');
    expect(await notice(page)).toContain('14:03:16');
  });

  itInChromium('when the instance has another token, without asking for it at each update', async () => {
    const token = 'the-token-of-the-operators-0815';
    const { tokenSha256 } = tokenCredential(token);
    const proxy = await starts.proxy({ config: { admin: { port: 0, tokenSha256 } } });
    opened = await open(proxy.adminUrl.replace('//', `//operator:${token}@`));
    await proxy.reload({ admin: { port: 0, ...tokenCredential('next-token') } });
    expect(await notice(opened.page)).toContain('The token is no longer accepted: reload the page.');
  });

  itInChromium.each([
    [{ status: 500, body: 'failed' }, 'The instance responded with HTTP status 500.'],
    [{ status: 401, body: 'denied' }, 'The token is no longer accepted: reload the page.'],
    [
      { status: 200, contentType: 'text/html', body: '<main>hello</main>' },
      'Another server responds at this address.',
    ],
    [undefined, 'The instance does not respond.'],
  ])('if the response is %j', async (response, text) => {
    const { page } = await show(calmStatus());
    await page.setRequestInterception(true);
    // Without a response the request hangs.
    page.on('request', (request) => void (response && request.respond(response)));
    expect(await notice(page)).toContain(text);
  });

  itInChromium('right after the computer slept', async () => {
    const { page } = await show(calmStatus());
    await page.setRequestInterception(true);
    await page.evaluate('const now = Date.now; Date.now = () => now() + 3_600_000;');
    expect(await notice(page)).toBe('Not updated since 14:03:07 UTC, so this is old.');
  });

  itInChromium('of another version the page is loaded again', async () => {
    const { page } = await show(calmStatus());
    await page.evaluate(`document.querySelector('style').append('/* of another version */')`);
    await page.waitForNavigation();
    expect(await page.evaluate(`document.querySelector('style').textContent`)).not.toContain('another');
  });
});

itInChromium('without scripts the page loads itself again, and has no filter that does nothing', async () => {
  const served = starts.closing(await servePage(crowdedStatus()));
  opened = await open('about:blank');
  const { page } = opened;
  await page.setJavaScriptEnabled(false);
  await page.goto(served.url);
  expect(await page.evaluate(`getComputedStyle(document.querySelector('search')).display`)).toBe('none');
  served.show(later(crowdedStatus(), 5));
  await page.waitForNavigation();
  expect(await timeOf(page)).toBe('14:03:12');
  await page.click('#keys summary');
  expect(await count(page, '#keys details[open]')).toBe(1);
  await page.click('#updates a');
  await page.waitForSelector('#updates a[href="?"]');
  expect(page.url()).toBe(`${served.url}/?refresh=off`);
});
