import { sourceName } from './condition-checks.ts';
import { latency, percent, rate, relative, secondsBetween, skew, span, whole } from './format.ts';
import { banner, pageTone, stateOf } from './page/banner.ts';
import { failedRequests } from './page/failed-requests.ts';
import { keys } from './page/keys.ts';
import {
  bar,
  clockTime,
  facts,
  Html,
  html,
  known,
  listingSection,
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
import { refreshInterval, script, scriptSource } from './page/script.ts';
import { marks, style, styleSource } from './page/style.ts';
import type { Status } from './schema.ts';
import { clockDifference, failing, lifetime, rejections, saturation } from './thresholds.ts';

const sourceStates = {
  up: [pill('ok', 'Up'), 'Up since'],
  denied: [pill('bad', 'Denies keys'), 'Denied since'],
  down: [pill('bad', 'Unavailable'), 'Down since'],
} as const;

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
  const page = html`<!doctype html>
<html lang="en" data-code="${scriptSource} ${styleSource}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
${refresh ? html`<noscript><meta http-equiv="refresh" content="${refreshInterval}"></noscript>\n` : undefined}<title>${stateOf(status)} \u00b7 Countersign status</title>
${icon(pageTone(status))}
<style>${new Html(style)}</style>
${refresh ? html`<script type="module">${new Html(script)}</script>\n` : undefined}</head>
<body>
${header(status, refresh)}
<p id="stale" role="alert" hidden></p>
<main>
${banner(status)}${environments(status)}${keys(status)}${callers(status)}${certificates(status)}${keySource(status)}${instance(status)}${failedRequests(status)}</main>
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
<p id="updates"><time datetime="${at}">${at.slice(0, 19).replace('T', ' ')}</time> UTC \u00b7 ${updates}</p>
</header>`;
}

/** A dot for the tab of the browser. */
function icon(tone: Tone): Html {
  const image = `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'><circle cx='4' cy='4' r='4' fill='%23${marks[tone]}'/></svg>`;
  return html`<link rel="icon" href="data:image/svg+xml,${image}">`;
}

function environments({ environments: list, findings }: Status): Html {
  return listingSection(list, {
    id: 'environments',
    title: 'Environments',
    hint: 'Rates, shares and latencies of the last minute',
    noun: 'environment',
    columns: [
      ['Environment', ({ name, gatewayHost }) => withDetail(name, gatewayHost)],
      ['In flight', inFlight],
      ['Requests/s', ({ requestsPerSecond }) => rate(requestsPerSecond), 'number'],
      [
        'Failed',
        ({ failedShare }) =>
          known(failedShare, 'no requests', (share) =>
            toned(share === 0 ? 'ok' : failing(share), percent(share)),
          ),
        'number',
      ],
      [
        'Rejected',
        (one) => known(one.rejectedShare, 'no responses', (share) => toned(rejections(one), percent(share))),
        'number',
      ],
      ['p50', (one) => known(one.latency, 'no requests', ({ p50 }) => latency(p50)), 'number'],
      ['p99', (one) => known(one.latency, 'no requests', ({ p99 }) => latency(p99)), 'number'],
      [
        'Clock skew',
        (one) => known(one.clockSkew, 'unknown', (seconds) => toned(clockDifference(one), skew(seconds))),
        'number',
      ],
    ],
    tone: ({ name }) =>
      severityOf(findings.filter(({ environment, login }) => environment === name && login === null)),
  });
}

function inFlight(one: Status['environments'][number]): Html {
  const tone = saturation(one);
  const limit = html` <span class="detail">of ${whole(one.maxInFlight)}</span>`;
  return html`${toned(tone, whole(one.inFlight))}${limit} ${bar(one.inFlight / one.maxInFlight, tone)}`;
}

function callers({ at, callers: list, findings }: Status): Html {
  return listingSection(list, {
    id: 'callers',
    title: 'Callers',
    hint: 'Since the start',
    noun: 'caller',
    empty: 'No callers are configured, so every request gets 401. Add one under "callers".',
    columns: [
      ['Caller', ({ name }) => name],
      ['Requests', ({ requests }) => whole(requests), 'number'],
      ['Denied', ({ denied }) => toned(denied > 0 ? 'warn' : 'ok', whole(denied)), 'number'],
      [
        'Last seen',
        ({ lastSeenAt }) => known(lastSeenAt, 'never', (time) => relativeTime(at, time)),
        'number',
      ],
    ],
    tone: ({ name, denied }) =>
      worst([denied > 0 ? 'warn' : 'ok', severityOf(findings.filter(({ caller }) => caller === name))]),
  });
}

function certificates({ at, certificates: list }: Status): Html {
  return listingSection(list, {
    id: 'certificates',
    title: 'Certificates',
    noun: 'certificate',
    empty:
      'No certificates are configured: the proxy port has no TLS, and no client certificate or CA is set for the gateway or Vault.',
    columns: [
      ['Certificate', newFiles],
      ['Environment', ({ environment }) => environment ?? none('all')],
      ['Valid from', ({ from }) => clockTime(at, from)],
      ['Valid until', ({ until }) => clockTime(at, until)],
      ['Time left', (one) => timeLeft(at, one)],
    ],
    tone: (one) => lifetime(at, one).severity,
  });
}

function newFiles({ name, problem }: Status['certificates'][number]): Html | string {
  return problem === null ? name : html`${name} ${pill('warn', 'New files unusable')} ${problem}`;
}

function timeLeft(now: string, one: Status['certificates'][number]): Html {
  const { left, severity } = lifetime(now, one);
  const seconds = secondsBetween(now, one.until);
  const state = seconds <= 0 ? pill('bad', 'Expired') : toned(severity, span(seconds));
  return html`${state}${severity === 'warn' ? html` ${pill('warn', 'Renew now')}` : undefined} ${bar(left, severity)}`;
}

function keySource({ at, keySource: source }: Status): Html {
  const { type, state, since, deniedLogins, deniedLogin, problem, tokenExpiresAt } = source;
  const [label, beginning] = state === null ? [pill('idle', 'Not read yet')] : sourceStates[state];
  const pairs = {
    Type: sourceName(type),
    State: label,
    ...(since !== null && beginning !== undefined && { [beginning]: moment(at, since) }),
    'Denied logins': deniedLogins === 0 ? none('none') : withDetail(whole(deniedLogins), deniedLogin ?? ''),
    ...(type === 'vault' && {
      'Token expires': known(tokenExpiresAt, 'never, or unknown', (time) => moment(at, time)),
    }),
    ...(problem !== null && { Problem: html`<span class="long">${problem}</span>` }),
  };
  return section({ id: 'key-source', title: 'Key source' }, facts(pairs));
}

function instance({ at, process, config }: Status): Html {
  const { digest, loadedAt, reloadFailed } = config;
  const pairs = {
    Version: process.version,
    'Node.js': process.node,
    Uptime: span(process.uptime),
    Started: moment(at, process.startedAt),
    'Configuration loaded': moment(at, loadedAt),
    Configuration: reloadFailed ? pill('warn', 'Not reloaded') : pill('ok', 'In effect'),
    'Configuration digest': html`<code>${digest}</code>`,
  };
  return section({ id: 'instance', title: 'Instance' }, facts(pairs));
}

function moment(now: string, time: string): Html {
  return html`${clockTime(now, time)} <span class="detail">${relative(now, time)}</span>`;
}
