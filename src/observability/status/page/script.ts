import { createHash } from 'node:crypto';

/** Seconds between two updates of the page. */
export const refreshInterval = 5;

/**
 * Runs in the browser: replaces what the page shows by what it shows now, and says so when it cannot. What has an ID
 * keeps its fold and its scroll position, and the focus stays on the same element of it.
 */
export const script = `
const one = (selector, page = document) => page.querySelector(selector);
const focusable = (element) => element ? [element, ...element.querySelectorAll('a, summary, [tabindex]')] : [];

async function update() {
  if (!getSelection().isCollapsed) throw 'text is selected.';
  // Without credentials that may be in the address.
  const response = await fetch(location.origin + location.pathname, { signal: AbortSignal.timeout(4000) })
    .catch(() => { throw 'the instance does not respond.'; });
  if (!response.ok) throw 'HTTP status ' + response.status + '. Reload the page.';
  const next = new DOMParser().parseFromString(await response.text(), 'text/html');
  // Of another version, or of another server.
  if (one('html', next).dataset.code !== one('html').dataset.code) return location.reload();
  const kept = Array.from(document.querySelectorAll('main [id]'), ({ id, open, scrollLeft, scrollTop }) =>
    [id, { open, scrollLeft, scrollTop }]);
  const place = [scrollX, scrollY];
  const holder = document.activeElement.closest('main [id]');
  const focused = focusable(holder).indexOf(document.activeElement);
  for (const part of ['title', 'link', 'time', 'main']) one(part).replaceWith(one(part, next));
  for (const [id, state] of kept) Object.assign(document.getElementById(id) ?? {}, state);
  focusable(holder && document.getElementById(holder.id))[focused]?.focus({ preventScroll: true });
  scrollTo(...place);
}

for (;;) {
  await new Promise((resolve) => setTimeout(resolve, ${refreshInterval * 1000}));
  const problem = await update().catch((why) => typeof why === 'string' ? why : 'it cannot be shown. Reload the page.');
  const text = problem ? 'Not updated since ' + one('time').textContent + ' UTC: ' + problem : '';
  const notice = one('#stale');
  notice.hidden = !problem;
  if (notice.textContent !== text) notice.textContent = text;
  if (problem) [document.title, one('link').href] = ['Not updated \u00b7 Countersign status', 'data:,'];
}
`;

/** Source expression of CSP that allows this script and no other. */
export const scriptSource = `'sha256-${createHash('sha256').update(script).digest('base64')}'`;
