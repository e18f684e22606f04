import { createHash } from 'node:crypto';
import { marks } from './style.ts';

/** Seconds between two updates of the page. */
export const refreshInterval = 5;

/**
 * Runs in the browser: replaces what the page shows by what it shows now, and says so when it cannot. What has an ID
 * keeps its fold, its scroll position and the focus in it.
 */
export const script = `
const one = (selector, page = document) => page.querySelector(selector);
const focusable = (element) => [element, ...element.querySelectorAll('a, summary, [tabindex]')];

/** Why there is no update; else nothing. */
async function update() {
  if (!getSelection().isCollapsed) return 'text is selected.';
  let response, text;
  try {
    // Without credentials that may be in the address.
    response = await fetch(location.origin + location.pathname, { signal: AbortSignal.timeout(4000) });
    text = await response.text();
  } catch {
    return 'the instance does not respond.';
  }
  if (response.status === 401) return 'the token is no longer accepted. Reload the page.';
  if (!response.ok) return 'the instance responded with HTTP status ' + response.status + '.';
  const next = new DOMParser().parseFromString(text, 'text/html');
  // Of another version, or of another server.
  if (one('html', next).dataset.code !== one('html').dataset.code) location.reload();
  else replace(next);
}

function replace(next) {
  const kept = Array.from(document.querySelectorAll('main [id]'), ({ id, open, scrollLeft, scrollTop }) =>
    [id, { open, scrollLeft, scrollTop }]);
  const place = [scrollX, scrollY];
  const holder = document.activeElement.closest('main [id]');
  const focused = holder && focusable(holder).indexOf(document.activeElement);
  for (const part of ['title', 'link', 'time', 'main']) one(part).replaceWith(one(part, next));
  for (const [id, state] of kept) Object.assign(document.getElementById(id) ?? {}, state);
  const found = holder && document.getElementById(holder.id);
  if (found) focusable(found)[focused]?.focus({ preventScroll: true });
  scrollTo(...place);
}

function show(problem) {
  const notice = one('#stale');
  const text = problem ? 'Not updated since ' + one('time').textContent + ' UTC: ' + problem : '';
  if (notice.textContent === text) return;
  notice.textContent = text;
  notice.hidden = text === '';
  if (notice.hidden) return;
  document.title = 'Not updated \u00b7 Countersign status';
  one('link').href = one('link').href.replace(/%23[0-9a-f]{6}/, '%23${marks.idle}');
}

for (;;) {
  await new Promise((resolve) => setTimeout(resolve, ${refreshInterval * 1000}));
  show(await update().catch(() => 'the page that came cannot be shown. Reload the page.'));
}
`;

/** Source expression of CSP that allows this script and no other. */
export const scriptSource = `'sha256-${createHash('sha256').update(script).digest('base64')}'`;
