import { sourceName } from './findings.ts';
import { latency, percent, rate, relative, secondsBetween, skew, span, whole } from './format.ts';
import { clockDifference, failing, lifetime, rejections, saturation } from './limits.ts';
import { banner, pageTone, stateOf } from './page/banner.ts';
import { keys } from './page/keys.ts';
import {
  bar,
  type Content,
  clockTime,
  facts,
  type Html,
  html,
  type Listing,
  listingSection,
  markup,
  none,
  pill,
  relativeTime,
  section,
  severityOf,
  type Tone,
  toned,
  withDetail,
  worst,
} from './page/parts.ts';
import { script, scriptSource } from './page/script.ts';
import { style, styleSource } from './page/style.ts';
import { tiles } from './page/tiles.ts';
import type { FailedRequest, Status } from './schema.ts';

const sourceStates = {
  up: [pill('ok', 'Up'), 'Up since'],
  denied: [pill('bad', 'Denies keys'), 'Denied since'],
  down: [pill('bad', 'Unavailable'), 'Down since'],
} as const;

type Environment = Status['environments'][number];

type Certificate = Status['certificates'][number];

type Caller = Status['callers'][number];

interface PageOptions {
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

function callers({ at, callers: list, findings }: Status): Html {
  const listing: Listing<Caller> = {
    id: 'callers',
    title: 'Callers',
    hint: 'Since the start',
    noun: 'caller',
    empty: 'No callers are configured, so every request gets 401. Add one under "callers".',
    key: ({ name }) => name,
    columns: [
      ['Caller', ({ name }) => name],
      ['Requests', ({ requests }) => whole(requests), 'number'],
      ['Denied', ({ denied }) => toned(denied > 0 ? 'warn' : 'ok', whole(denied)), 'number'],
      [
        'Last seen',
        ({ lastSeenAt }) => (lastSeenAt === null ? none('never') : relativeTime(at, lastSeenAt)),
        'number',
      ],
    ],
    tone: ({ name, denied }) =>
      worst([denied > 0 ? 'warn' : 'ok', severityOf(findings.filter(({ caller }) => caller === name))]),
  };
  return listingSection(listing, list);
}

function certificates({ at, certificates: list }: Status): Html {
  const listing: Listing<Certificate> = {
    id: 'certificates',
    title: 'Certificates',
    noun: 'certificate',
    empty:
      'No certificates are configured: the proxy port has no TLS, and no client certificate or CA is set for the gateway or Vault.',
    key: ({ name, environment }) => `${environment ?? ''} ${name}`,
    columns: [
      ['Certificate', ({ name }) => name],
      ['Environment', ({ environment }) => environment ?? none('all')],
      ['Valid from', ({ from }) => clockTime(at, from)],
      ['Valid until', ({ until }) => clockTime(at, until)],
      ['Time left', (one) => timeLeft(at, one)],
    ],
    tone: (one) => lifetime(at, one).severity,
  };
  return listingSection(listing, list);
}

function timeLeft(now: string, one: Certificate): Html {
  const { left, severity } = lifetime(now, one);
  const seconds = secondsBetween(now, one.until);
  const state = seconds <= 0 ? pill('bad', 'Expired') : toned(severity, span(seconds));
  return html`${state}${severity === 'warn' ? html` ${pill('warn', 'Renew now')}` : undefined} ${bar(left, severity)}`;
}

function environments(status: Status): Html {
  const listing: Listing<Environment> = {
    id: 'environments',
    title: 'Environments',
    hint: 'Rates, shares and latencies of the last minute',
    noun: 'environment',
    key: ({ name }) => name,
    columns: [
      ['Environment', ({ name, gatewayHost }) => withDetail(name, gatewayHost)],
      ['In flight', inFlight],
      ['Requests/s', ({ requestsPerSecond }) => rate(requestsPerSecond), 'number'],
      ['Failed', ({ failedShare }) => failed(failedShare), 'number'],
      ['403 share', (one) => rejected(one, status), 'number'],
      ['p50', (one) => quantile(one, 'p50'), 'number'],
      ['p99', (one) => quantile(one, 'p99'), 'number'],
      ['Clock skew', clock, 'number'],
    ],
    tone: ({ name }) =>
      severityOf(status.findings.filter(({ environment, login }) => environment === name && login === null)),
  };
  return listingSection(listing, status.environments);
}

function failed(share: number | null): Content {
  return share === null ? none('no requests') : toned(share === 0 ? 'ok' : failing(share), percent(share));
}

function rejected(one: Environment, status: Status): Content {
  const { rejectedShare: share } = one;
  return share === null ? none('no responses') : toned(rejections(one, status), percent(share));
}

function clock(one: Environment): Content {
  const { clockSkew } = one;
  return clockSkew === null ? none('unknown') : toned(clockDifference(one), skew(clockSkew));
}

function inFlight(one: Environment): Html {
  const tone = saturation(one);
  const limit = html` <span class="detail">of ${whole(one.maxInFlight)}</span>`;
  return html`${toned(tone, whole(one.inFlight))}${limit} ${bar(one.inFlight / one.maxInFlight, tone)}`;
}

function quantile({ latency: both }: Environment, which: 'p50' | 'p99'): string | Html {
  return both === null ? none('no requests') : latency(both[which]);
}

function failures({ at, failures: list, runbookUrl }: Status): Html {
  const listing: Listing<FailedRequest> = {
    id: 'failures',
    title: 'Failed requests',
    hint: 'The last 100; search the log for the request ID',
    noun: 'failed request',
    empty: 'No request has failed since the start.',
    key: (one) => `${one.at} ${one.requestId}`,
    columns: [
      ['Time (UTC)', (one) => clockTime(at, one.at)],
      ['Cause', (one) => cause(one, runbookUrl)],
      ['Status', ({ status }) => status?.toString() ?? none('no response')],
      ['Outcome', ({ outcome }) => pill(outcome === 'unknown' ? 'bad' : 'idle', outcome)],
      ['Caller', ({ caller }) => caller ?? none('unknown')],
      ['Environment', ({ environment }) => environment ?? none('unknown')],
      ['Operation', ({ operation }) => operation ?? none('unknown')],
      ['Login', ({ login }) => login ?? none('none')],
      ['Request ID', ({ requestId }) => html`<code>${requestId}</code>`],
    ],
  };
  return listingSection(listing, list);
}

function cause({ cause: text, runbookSection }: FailedRequest, runbookUrl: string | null): Html {
  if (runbookSection === null) return html`<code>${text}</code>`;
  if (runbookUrl === null) return html`<code title="Runbook: ${runbookSection}">${text}</code>`;
  return html`<a href="${runbookUrl}${runbookSection}" rel="noreferrer"><code>${text}</code></a>`;
}

function keySource({ at, keySource: source }: Status): Html {
  const { type, state, since, deniedLogins, problem, tokenExpiresAt } = source;
  const [label, beginning] = state === null ? [pill('idle', 'Not read yet')] : sourceStates[state];
  const pairs: [string, Content][] = [
    ['Type', sourceName(type)],
    ['State', label],
  ];
  if (since !== null && beginning !== undefined) pairs.push([beginning, moment(at, since)]);
  pairs.push(['Denied logins', deniedLogins === 0 ? none('none') : whole(deniedLogins)]);
  if (type === 'vault') {
    const expiry = tokenExpiresAt === null ? none('never, or unknown') : moment(at, tokenExpiresAt);
    pairs.push(['Token expires', expiry]);
  }
  if (problem !== null) pairs.push(['Problem', html`<span class="long">${problem}</span>`]);
  return section({ id: 'key-source', title: 'Key source' }, facts(pairs));
}

function instance({ at, process, config }: Status): Html {
  const { digest, loadedAt, reloadFailed } = config;
  return section(
    { id: 'instance', title: 'Instance' },
    facts([
      ['Version', process.version],
      ['Node.js', process.node],
      ['Uptime', span(process.uptime)],
      ['Started', moment(at, process.startedAt)],
      ['Configuration loaded', moment(at, loadedAt)],
      ['Configuration', reloadFailed ? pill('warn', 'Not reloaded') : pill('ok', 'In effect')],
      ['Configuration digest', html`<code>${digest}</code>`],
    ]),
  );
}

function moment(now: string, time: string): Html {
  return html`${clockTime(now, time)} <span class="detail">${relative(now, time)}</span>`;
}
