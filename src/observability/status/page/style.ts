import { createHash } from 'node:crypto';

/** Of each tone: the color of its mark, as in the icon of the page. */
export const marks = { ok: '2aa167', info: '3b82e0', warn: 'd18b12', bad: 'd93a34', idle: '98a2b1' };

/** Text has a contrast of at least 4.5 to 1 on every ground that it is used on, in both schemes. */
const colors = `
:root {
  color-scheme: light dark;
  --page: #f3f5f8; --card: #fff; --line: #dbe0e8; --text: #1a2230; --soft: #566173; --link: #1a5bb8; --stripe: #f8f9fb;
  --ok: #12633a; --ok-ground: #e2f4e9; --ok-mark: #${marks.ok};
  --info: #1b4f97; --info-ground: #e5effd; --info-mark: #${marks.info};
  --warn: #774700; --warn-ground: #fdf1d6; --warn-mark: #${marks.warn};
  --bad: #a01818; --bad-ground: #fde8e7; --bad-mark: #${marks.bad};
  --idle: #4d5768; --idle-ground: #edf0f4; --idle-mark: #${marks.idle};
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0e1217; --card: #161b22; --line: #2b333f; --text: #e4e9f0; --soft: #9ba7b7; --link: #86b7ff; --stripe: #1a2029;
    --ok: #7fdda6; --ok-ground: #122c1f; --ok-mark: #35b874;
    --info: #9cc7ff; --info-ground: #14294a; --info-mark: #4d94ee;
    --warn: #f3c872; --warn-ground: #33280f; --warn-mark: #d99a2b;
    --bad: #ffa39d; --bad-ground: #3b1818; --bad-mark: #ee5a52;
    --idle: #b2bcc9; --idle-ground: #252c37; --idle-mark: #6d7889;
  }
}`;

const base = `
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--page); color: var(--text); font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere;
}
header, main, footer { max-width: 1720px; margin: 0 auto; padding: 0 24px; }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 4px 16px; padding-top: 16px; padding-bottom: 12px; }
header p { margin: 0; }
h1 { margin: 0; font-size: 18px; letter-spacing: -.01em; }
h1 span { color: var(--soft); font-weight: 400; }
h2 { margin: 0; font-size: 15px; }
a { color: var(--link); text-underline-offset: 2px; }
#updates { margin-left: auto; color: var(--soft); }
:is(a, .scroll, summary):focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
code { font: 12px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
footer { color: var(--soft); padding-top: 16px; padding-bottom: 24px; font-size: 13px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; min-width: 0; }
.head { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 12px; padding: 10px 16px; }
.head p { margin: 0; color: var(--soft); font-size: 13px; }
.empty { margin: 0; padding: 4px 16px 16px; color: var(--soft); }
.detail, .none { color: var(--soft); }
#stale {
  position: sticky; top: 0; z-index: 2; margin: 0 0 12px; padding: 8px 24px; font-weight: 600;
  color: var(--bad); background: var(--bad-ground); border-bottom: 1px solid var(--bad-mark);
}
[hidden], body:has(#stale:not([hidden])) .live { display: none; }
body:has(#stale:not([hidden])) main { filter: grayscale(1); }
.pill {
  display: inline-block; padding: 0 8px 0 6px; border: 1px solid var(--ground); border-radius: 10px; font-size: 12px; font-weight: 600;
  line-height: 18px; white-space: nowrap; justify-self: start; color: var(--tone); background: var(--ground);
}
.pill::before { margin-right: 5px; color: var(--mark); content: "\\25CF" / ""; }
.pill.idle::before { content: "\\25CB" / ""; }
.pill.warn::before { content: "\\25B2" / ""; font-size: 10px; }
.pill.bad::before { content: "\\25A0" / ""; }
.pill.info::before { content: "\\25D2" / ""; }
${Object.keys(marks).map(toneClass).join('\n')}`;

function toneClass(tone: string): string {
  return `.${tone} { --tone: var(--${tone}); --ground: var(--${tone}-ground); --mark: var(--${tone}-mark); }`;
}

const parts = `
main { display: grid; gap: 16px; }
.banner { border-left: 6px solid var(--mark); }
.banner h2 { font-size: 20px; color: var(--tone); }
.banner .head p { font-size: 14px; color: var(--text); }
.banner ul { margin: 0; padding: 0 16px 12px; list-style: none; }
.banner li { display: grid; grid-template-columns: 110px 1fr; gap: 10px; align-items: baseline; padding: 3px 0; }
.banner li p { margin: 0; }
.scroll { overflow-x: auto; }
summary { padding: 7px 16px; border-top: 1px solid var(--line); color: var(--link); cursor: pointer; }
details .scroll { max-height: 80vh; overflow-y: auto; }
table { width: 100%; border-collapse: collapse; font-size: 13px; }
th, td { padding: 7px 8px; border-top: 1px solid var(--line); text-align: left; vertical-align: top; }
:is(th, td):first-child { padding-left: 16px; }
:is(th, td):last-child { padding-right: 16px; }
thead th { padding-top: 2px; padding-bottom: 4px; border-top: 0; color: var(--soft); font-size: 12px; white-space: nowrap; }
tbody tr:hover { background: var(--stripe); }
tbody th .detail { display: block; font-weight: 400; }
td > div > .detail { display: inline-block; }
.code { font: 12px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.strong { font-weight: 700; color: var(--tone); }
.failures { white-space: nowrap; }
.failures tbody th { font-weight: 400; }
@media (min-width: 861px) {
  details thead { position: sticky; top: 0; z-index: 1; background: var(--card); }
  :is(.environments, .callers) :is(th, td):not(:first-child) { text-align: right; white-space: nowrap; }
  .keys { white-space: nowrap; }
}`;

/** Rows become cards, and everything is below each other. */
const narrow = `
@media (max-width: 860px) {
  header, main, footer { padding-left: 12px; padding-right: 12px; }
  #stale { padding: 8px 12px; }
  main { gap: 10px; }
  .banner li { grid-template-columns: 1fr; gap: 2px; padding: 6px 0; }
  table, tbody, tr, th, td { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
  tbody tr { padding: 8px 16px; border-top: 1px solid var(--line); }
  tbody :is(th, td):is(*, :first-child, :last-child) { padding: 2px 0; border: 0; white-space: normal; text-align: left; }
  tbody th { font-size: 14px; }
  td::before { content: attr(data-heading) / ""; color: var(--soft); font-size: 12px; }
  td { display: grid; grid-template-columns: 108px minmax(0, 1fr); gap: 8px; align-items: baseline; }
  .failures td { display: inline-flex; gap: 5px; margin-right: 14px; }
}`;

/** The style sheet of the page. It is inline, so that the page needs no other request. */
export const style = `${colors}${base}${parts}${narrow}\n`;

/** Source expression of CSP that allows this style sheet and no other. */
export const styleSource = `'sha256-${createHash('sha256').update(style).digest('base64')}'`;
