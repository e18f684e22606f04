import { describe, expect } from '@jest/globals';
import { overflow, schemes, view, violations } from '../support/browser.ts';
import { chromiumTests } from '../support/chromium.ts';
import { harness } from '../support/harness.ts';
import { calmStatus, emptyStatus, hostileStatus, rotationStatus, troubleStatus } from '../support/status.ts';
import { servePage } from '../support/status-page.ts';

const { itInChromium, open } = chromiumTests();
const starts = harness();

const attack = `</td></table><script>alert(1)</script><img src=x onerror=alert(1)>"'\u202e${'x'.repeat(400)}`;

describe.each([
  ['empty', emptyStatus()],
  ['calm', calmStatus()],
  ['rotation', rotationStatus()],
  ['trouble, with a hundred failed requests', troubleStatus()],
  ['hostile names of 400 characters', hostileStatus(attack)],
])('the status page: %s', (_name, status) => {
  itInChromium.each(schemes)(
    'fits and is accessible at every width in the %s scheme',
    async (scheme) => {
      const url = starts.closing(await servePage(status)).url;
      const { page, errors, requests } = await open(`${url}/?refresh=off`);
      for (const width of [320, 360, 900, 1280, 1920]) {
        await view(page, scheme, width);
        expect({ width, wider: await overflow(page) }).toEqual({ width, wider: 0 });
        // Cards, tables that have to be scrolled, and tables that fit.
        if ([360, 900, 1280].includes(width)) expect(await violations(page)).toEqual([]);
      }
      expect(errors).toEqual([]);
      expect(requests).toEqual([`${url}/?refresh=off`]);
      await page.close();
    },
    60_000,
  );
});

describe('for a screen reader', () => {
  itInChromium.each([360, 1280])('tables are tables at %d pixels', async (width) => {
    const { url } = starts.closing(await servePage(calmStatus()));
    const { page } = await open(`${url}/?refresh=off`);
    await view(page, 'light', width);
    const tree = JSON.stringify(await page.accessibility.snapshot({ interestingOnly: false }));
    const rolesIn = (role: string): number => tree.split(`"role":"${role}"`).length - 1;
    const { environments, keys, callers, certificates, failures } = calmStatus();
    const rows = [environments, keys.list, callers, certificates, failures].map(({ length }) => length);
    expect(rolesIn('table')).toBe(rows.length);
    expect(rolesIn('rowheader')).toBe(rows.reduce((sum, count) => sum + count));
    expect(rolesIn('columnheader')).toBe(8 + 5 + 4 + 5 + 9);
    expect(rolesIn('banner') + rolesIn('main') + rolesIn('navigation') + rolesIn('contentinfo')).toBe(4);
    await page.close();
  });
});

describe('what these tests measure', () => {
  itInChromium('is found on a page that is wrong', async () => {
    const { url } = starts.closing(await servePage(calmStatus()));
    const { page, errors } = await open(`${url}/?refresh=off`);
    await view(page, 'dark', 360);
    await page.evaluate(`document.querySelector('h1').style.color = '#333'`);
    await page.evaluate(`document.querySelector('.tiles').style.minWidth = '1000px'`);
    await page.evaluate(
      `document.querySelector('main').insertAdjacentHTML('beforeend', '<img src="http://127.0.0.1:1/x">')`,
    );
    expect(await violations(page)).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^color-contrast: /),
        expect.stringMatching(/^image-alt: /),
      ]),
    );
    expect(await overflow(page)).toBeGreaterThan(600);
    expect(errors).toEqual([expect.stringMatching(/Content Security Policy/)]);
    await page.close();
  });
});
