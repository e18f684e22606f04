import { banner, pageTone, stateOf } from './page/banner.ts';
import { callers } from './page/callers.ts';
import { certificates } from './page/certificates.ts';
import { environments } from './page/environments.ts';
import { failures } from './page/failures.ts';
import { type Html, html, markup } from './page/html.ts';
import { instance, keySource } from './page/instance.ts';
import { keys } from './page/keys.ts';
import { clockTime, type Tone } from './page/parts.ts';
import { script, scriptSource } from './page/script.ts';
import { style, styleSource } from './page/style.ts';
import { tiles } from './page/tiles.ts';
import type { Status } from './schema.ts';

export interface PageOptions {
  /** Whether the page updates itself every 5 seconds; it does unless given. */
  readonly refresh?: boolean;
}

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

/** Seconds. */
const refreshInterval = 5;

/** The status page. It needs no other request, and is complete without its script, which keeps it up to date in place. */
export function renderStatusPage(status: Status, { refresh = true }: PageOptions = {}): string {
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
${refresh ? html`<noscript><meta http-equiv="refresh" content="${refreshInterval}"></noscript>\n` : undefined}<title>${stateOf(status)} \u00b7 Countersign status</title>
${icon(pageTone(status))}
<style>${markup(style)}</style>
<script type="module">${markup(script)}</script>
</head>
<body>
${header(status, refresh)}
<p id="stale" role="alert" hidden></p>
<main>
${banner(status)}${tiles(status)}${environments(status)}${keys(status)}${callers(status)}${certificates(status)}${keySource(status)}${instance(status)}${failures(status)}</main>
<footer>Times are in UTC. The same as JSON: <a href="status.json">status.json</a>.</footer>
</body>
</html>
`;
  return page.toString();
}

function header({ at }: Status, refresh: boolean): Html {
  const updates = refresh
    ? html`<span class="live">updates every ${refreshInterval} s \u00b7 </span><a href="?refresh=off">Pause updates</a>`
    : html`<span>paused \u00b7 </span><a href="?">Resume updates</a>`;
  return html`<header>
<h1>Countersign <span>status</span></h1>
<search><label for="filter">Filter rows</label> <input id="filter" type="search" placeholder="login, request ID, 403 \u2026" autocomplete="off" spellcheck="false"> <output id="matches" for="filter"></output></search>
<p id="updates" ${refresh ? html`data-every="${refreshInterval}"` : undefined}>${clockTime(at, at)} UTC \u00b7 ${updates}</p>
</header>`;
}

const iconColors: Readonly<Record<Tone, string>> = {
  ok: '2aa167',
  info: '3b82e0',
  warn: 'd18b12',
  bad: 'd93a34',
  idle: '98a2b1',
};

/** A dot for the tab of the browser. */
function icon(tone: Tone): Html {
  const image = `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'><circle cx='4' cy='4' r='4' fill='%23${iconColors[tone]}'/></svg>`;
  return html`<link rel="icon" href="data:image/svg+xml,${image}">`;
}
