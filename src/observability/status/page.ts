import { counted } from './format.ts';
import { type Content, Html, html } from './page/html.ts';
import { refreshInterval, script, scriptSource } from './page/script.ts';
import { marks, style, styleSource } from './page/style.ts';
import type { Finding, Status } from './schema.ts';
import { type Cell, maxRows, paymentsOf, stateOf, type Table, tablesOf } from './tables.ts';

/** Value of `Content-Security-Policy` for the page: its own style sheet, script and icon, and the page itself again. */
export const pagePolicy = [
  "default-src 'none'",
  `script-src ${scriptSource}`,
  "connect-src 'self'",
  `style-src ${styleSource}`,
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/**
 * The status page. It needs no other request, and is complete without its script, which keeps it up to date in place.
 *
 * @param options `refresh`: whether the page updates itself every 5 seconds
 */
export function renderStatusPage(status: Status, { refresh = true } = {}): string {
  const { at } = status;
  const updates = refresh
    ? html`<span class="live">updates every ${refreshInterval} s \u00b7 </span><a href="?refresh=off">Pause updates</a>`
    : html`<span>paused \u00b7 </span><a href="?">Resume updates</a>`;
  const dot = `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'><circle cx='4' cy='4' r='4' fill='%23${marks[toneOf(status)]}'/></svg>`;
  const page = html`<!doctype html>
<html lang="en" data-code="${scriptSource} ${styleSource}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
${refresh ? html`<noscript><meta http-equiv="refresh" content="${refreshInterval}"></noscript>\n` : undefined}<title>${stateOf(status)} \u00b7 Countersign status</title>
<link rel="icon" href="data:image/svg+xml,${dot}">
<style>${new Html(style)}</style>
${refresh ? html`<script type="module">${new Html(script)}</script>\n` : undefined}</head>
<body>
<header>
<h1>Countersign <span>status</span></h1>
<p id="updates"><time datetime="${at}">${at.slice(0, 19).replace('T', ' ')}</time> UTC \u00b7 ${updates}</p>
</header>
<p id="stale" role="alert" hidden></p>
<main>
${banner(status)}${tablesOf(status).map(section)}</main>
<footer>Times are in UTC. The same as JSON: <a href="status.json">status.json</a>.</footer>
</body>
</html>
`;
  return page.toString();
}

/** That of the worst finding. */
function toneOf({ health: { ready }, findings: [first] }: Status) {
  return ready ? (first?.severity ?? 'ok') : 'bad';
}

/** Whether this instance receives requests, whether it does its work, and what to look at. */
function banner(status: Status): Html {
  const { findings, health, well, runbookUrl } = status;
  const problems = findings.filter(({ severity }) => severity !== 'info').length;
  const summary = problems === 0 ? 'Nothing needs attention.' : `${counted(problems, 'problem')}:`;
  const text = health.ready
    ? `This instance receives requests${well ? '' : ', but does not do all of its work'}.`
    : 'This instance should not receive requests.';
  return html`<section class="banner ${toneOf(status)}" aria-labelledby="health-title" id="health">
<div class="head"><h2 id="health-title" class="${well && health.ready ? 'ok' : 'bad'}">${stateOf(status)}</h2><p>${text} ${summary}</p></div>
${findings.length === 0 ? undefined : html`<ul>${findings.map((one, index) => item(one, runbookUrl, findings.slice(0, index)))}</ul>`}
</section>
`;
}

const labels = { bad: 'Act now', warn: 'Act soon', info: 'In progress' };

/** What it is about. */
function subjectOf({ code, environment, login, caller }: Finding): string {
  return [code, environment, login, caller].filter((part) => part !== null).join(' ');
}

function item(finding: Finding, runbookUrl: string | null, before: readonly Finding[]): Html {
  const { severity, summary, advice, runbookSection } = finding;
  const about = subjectOf(finding);
  const earlier = before.filter((one) => subjectOf(one) === about).length;
  const runbook = html` <a href="${runbookUrl ?? ''}${runbookSection}" rel="noreferrer">Runbook</a>`;
  const payments = paymentsOf(finding).map((line) => html`<br>${line}`);
  return html`<li id="${about}${earlier === 0 ? undefined : ` ${earlier}`}">${cell({ look: 'pill', tone: severity, text: labels[severity] })} <p><strong title="${about}">${inline(summary)}.</strong> ${inline(advice)}${runbookUrl === null ? undefined : runbook}${payments}</p></li>\n`;
}

/** A text with names of the configuration and commands between backticks. */
function inline(text: string): Content {
  return text
    .split(/(`[^`]+`)/)
    .map((part, index) => (index % 2 === 1 ? html`<code>${part.slice(1, -1)}</code>` : part));
}

function section(table: Table): Html {
  const { id, title, hint, empty, noun, rows } = table;
  const folded = rows.slice(maxRows);
  const more = html`<details id="${id}-fold"><summary id="${id}-more">${counted(folded.length, `more ${noun}`)}</summary>${rowsOf(table, folded, ['title', 'more'])}</details>`;
  const content =
    rows.length === 0 && empty !== undefined
      ? html`<p class="empty">${empty}</p>`
      : [rowsOf(table, rows.slice(0, maxRows), ['title']), folded.length === 0 ? undefined : more];
  return html`<section id="${id}" aria-labelledby="${id}-title">
<div class="head"><h2 id="${id}-title">${title}</h2>${hint === undefined ? undefined : html`<p>${hint}</p>`}</div>
${content}
</section>
`;
}

/**
 * On a narrow screen a row becomes a card. The roles say again what the elements mean: in some browsers
 * `display: block` removes it.
 */
function rowsOf({ id, headings }: Table, rows: Table['rows'], titles: readonly string[]): Html {
  const labels = titles.map((title) => `${id}-${title}`).join(' ');
  const cellsOf = (row: readonly Cell[]): Html[] =>
    row.map((one, index) =>
      index === 0
        ? html`<th scope="row" role="rowheader">${cell(one)}</th>`
        : html`<td role="cell" data-heading="${headings[index]}"><div>${cell(one)}</div></td>`,
    );
  return html`<div class="scroll" id="${id}-${titles.at(-1)}-rows" role="group" aria-labelledby="${labels}" tabindex="0">
<table role="table" aria-labelledby="${labels}" class="${id}">
<thead role="rowgroup"><tr role="row">${headings.map((heading) => html`<th scope="col" role="columnheader">${heading}</th>`)}</tr></thead>
<tbody role="rowgroup">
${rows.map((row) => html`<tr role="row">${cellsOf(row)}</tr>\n`)}</tbody>
</table></div>`;
}

function cell(one: Cell): Content {
  if (typeof one === 'string') return one;
  const { text, look, tone, title, detail, href, id } = one;
  const shown = html`<span class="${look} ${tone}" title="${title}">${text}</span>`;
  const linked =
    href === undefined ? shown : html`<a id="${id}" href="${href}" rel="noreferrer">${shown}</a>`;
  return detail === undefined ? linked : html`${linked} <span class="detail">${detail}</span>`;
}
