import { expect, it } from '@jest/globals';
import { pagePolicy } from '../../src/observability/status/page.ts';
import { harness } from '../support/harness.ts';

const starts = harness();

it('the status page may load nothing, be framed by nothing and is stored by nothing', async () => {
  const { adminUrl } = await starts.proxy();
  const { headers, status } = await fetch(`${adminUrl}/`);
  expect(status).toBe(200);
  expect(Object.fromEntries(headers)).toMatchObject({
    'content-security-policy': pagePolicy,
    'cache-control': 'no-store',
    'content-type': 'text/html; charset=utf-8',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
  });
  expect(pagePolicy).not.toContain('unsafe');
});

it('the status page reloads itself where there are no scripts, unless the query pauses it', async () => {
  const { adminUrl } = await starts.proxy();
  const page = async (query: string): Promise<string> => (await fetch(`${adminUrl}/${query}`)).text();
  const refresh = '<noscript><meta http-equiv="refresh"';
  for (const query of ['', '?', '?refresh=on', '?refresh=off&refresh=on']) {
    expect(await page(query)).toContain(refresh);
  }
  expect(await page('?refresh=off')).not.toContain('http-equiv');
});

it('nothing of the query is on the status page', async () => {
  const { adminUrl } = await starts.proxy();
  const text = await (await fetch(`${adminUrl}/?refresh=off&x=needle`)).text();
  expect(text).not.toContain('needle');
});
