import { createHash } from 'node:crypto';
import { marks } from './style.ts';

/**
 * Runs in the browser: takes over what changed from the page as it is now, so that focus, scroll position, selection
 * and open rows stay; filters rows; and says so when the page is old. Without it the browser loads the page again.
 */
export const script = `
const one = (selector, root = document) => root.querySelector(selector);
const all = (selector) => Array.from(document.querySelectorAll(selector));
const [filter, matches, notice] = [one('#filter'), one('#matches'), one('#stale')];
let updatedAt = Date.now();
let triedAt = updatedAt;
let turn = 0;
let isBusy = false;
let isDenied = false;
let problem = '';

/** Children by name and key; those of the same in their order. */
function childrenOf(parent) {
  const counts = new Map();
  return new Map(Array.from(parent.childNodes, (node) => {
    const kind = node.nodeName + ' ' + (node.dataset?.key ?? '');
    const count = counts.get(kind) ?? 0;
    counts.set(kind, count + 1);
    return [kind + ' ' + count, node];
  }));
}

/** Makes a node like another one, and keeps every part that both have. */
function patch(node, next) {
  if (node.nodeType === Node.TEXT_NODE) {
    if (node.data !== next.data) node.data = next.data;
    return;
  }
  for (const { name } of Array.from(node.attributes)) {
    // Whether rows are unfolded is up to the reader.
    if (name !== 'open' && !next.hasAttribute(name)) node.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  const [before, after] = [childrenOf(node), childrenOf(next)];
  for (const [key, child] of before) if (!after.has(key)) child.remove();
  let place = node.firstChild;
  for (const [key, child] of after) {
    const kept = before.get(key);
    if (kept !== undefined && kept === place) place = place.nextSibling;
    else node.insertBefore(kept ?? child, place);
    if (kept !== undefined) patch(kept, child);
  }
}

/** The page as it is now. Credentials in its address must not be in that of a request. */
async function read() {
  let response;
  let text;
  try {
    const url = location.origin + location.pathname + location.search;
    response = await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(4000) });
    text = await response.text();
  } catch {
    throw new Error('The instance does not respond.');
  }
  isDenied = response.status === 401;
  if (isDenied) throw new Error('The token is no longer accepted: reload the page.');
  if (!response.ok) throw new Error('The instance responded with HTTP status ' + response.status + '.');
  const page = new DOMParser().parseFromString(text, 'text/html');
  if (one('#updates', page) === null) throw new Error('Another server responds at this address.');
  return page;
}

const codeOf = (page) => one('style', page).textContent + one('script', page)?.textContent;

async function update() {
  const mine = ++turn;
  isBusy = true;
  triedAt = Date.now();
  try {
    const page = await read();
    if (mine !== turn) return;
    // Another version of Countersign: its style sheet would not be allowed here.
    if (codeOf(page) !== codeOf(document)) return location.reload();
    const focused = document.activeElement;
    const around = focused.closest('.scroll');
    const { top } = focused.getBoundingClientRect();
    const isSeen = focused !== document.body && top >= 0 && top < innerHeight;
    for (const part of ['#updates', 'main']) patch(one(part), one(part, page));
    document.title = page.title;
    one('link').href = one('link', page).href;
    applyFilter();
    if (document.activeElement !== focused) {
      [focused, around].find((element) => element?.isConnected)?.focus({ preventScroll: true });
    }
    if (isSeen && focused.isConnected) scrollBy(0, focused.getBoundingClientRect().top - top);
    updatedAt = Date.now();
    problem = '';
  } catch (error) {
    if (mine !== turn) return;
    problem = error.message;
  }
  isBusy = false;
  showAge();
}

/** Milliseconds between updates; NaN while they are paused. */
const interval = () => Number(one('#updates').dataset.every) * 1000;

/** An old page does not look like a new one, also after the computer slept. */
function showAge() {
  const isOld = problem !== '' || Date.now() - updatedAt > 3 * interval();
  const time = one('#updates time').textContent;
  const text = isOld ? 'Not updated since ' + time + ' UTC, so this is old. ' + problem : '';
  if (notice.textContent === text) return;
  notice.textContent = text;
  notice.hidden = !isOld;
  if (isOld) {
    document.title = 'Not updated \u00b7 Countersign status';
    one('link').href = one('link').href.replace(/%23[0-9a-f]{6}/, '%23${marks.idle}');
  }
}

/** Whether rows were unfolded before the filter unfolded them. */
const folds = new Map();

function applyFilter() {
  const words = filter.value.toLowerCase().split(/\\s+/).filter((word) => word !== '');
  const rows = all('tbody tr');
  for (const row of rows) {
    const titles = Array.from(row.querySelectorAll('[title]'), ({ title }) => title);
    const text = [row.textContent, ...titles].join(' ').toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
  if (words.length === 0) {
    for (const [fold, open] of folds) fold.open = open;
    folds.clear();
  } else {
    for (const fold of all('details')) {
      if (!folds.has(fold)) {
        folds.set(fold, fold.open);
        fold.open = true;
      }
    }
  }
  const count = rows.filter(({ hidden }) => !hidden).length;
  const text = words.length === 0 ? '' : count + ' of ' + rows.length + ' rows';
  if (matches.textContent !== text) matches.textContent = text;
}

/** So that the filter outlives the page, and is in a link that is sent. */
function keepFilter() {
  const url = new URL(location.href);
  if (filter.value === '') url.searchParams.delete('filter');
  else url.searchParams.set('filter', filter.value);
  history.replaceState(null, '', url);
}

filter.value = new URLSearchParams(location.search).get('filter') ?? '';
filter.addEventListener('input', applyFilter);
filter.addEventListener('change', keepFilter);
applyFilter();
document.addEventListener('click', (event) => {
  const link = event.target.closest('#updates a');
  if (link === null || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  history.replaceState(null, '', link.href);
  keepFilter();
  update();
});
setInterval(() => {
  // A browser would ask for the token each time.
  if (!isBusy && !isDenied && Math.abs(Date.now() - triedAt) >= interval()) update();
  showAge();
}, 500);
`;

/** Source expression of CSP that allows this script and no other. */
export const scriptSource = `'sha256-${createHash('sha256').update(script).digest('base64')}'`;
