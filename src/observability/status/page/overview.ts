import type { FindingCode } from '../finding-codes.ts';
import { counted, percent, rate, relative, secondsBetween, span, whole } from '../format.ts';
import { keyProgress, originOf } from '../key-texts.ts';
import { maxFailures } from '../recorder.ts';
import type { Finding, Status } from '../schema.ts';
import { lifetime, rejections, saturation } from '../thresholds.ts';
import { clockTime, type Html, html, inline, none, pill, type Tone, worst } from './parts.ts';

const labels: Readonly<Record<Finding['severity'], string>> = {
  bad: 'Act now',
  warn: 'Act soon',
  info: 'In progress',
};

/** Of a finding; the others are in `/status.json`. */
const maxPayments = 10;

/** The section of the page that shows what a finding is about, unless it is that of the environments or the instance. */
const sections: Readonly<Partial<Record<FindingCode, string>>> = {
  'key-source-never-reached': 'key-source',
  'key-source-down': 'key-source',
  'key-source-denied': 'key-source',
  'logins-not-found': 'key-source',
  'vault-token-expired': 'key-source',
  'outcome-unknown': 'failures',
  'payment-server-error': 'failures',
  'key-missing': 'keys',
  'key-unusable': 'keys',
  'key-rejected': 'keys',
  'key-waiting': 'keys',
  'keys-stale': 'keys',
  'certificate-expiring': 'certificates',
  'certificate-files-unusable': 'certificates',
};

/** Whether this instance receives requests, whether it does its work, and what to look at. */
export function banner(status: Status): Html {
  const { findings, health } = status;
  const problems = findings.filter(({ severity }) => severity !== 'info').length;
  const summary = problems === 0 ? 'Nothing needs attention.' : `${counted(problems, 'problem')}:`;
  const text = health.ready
    ? `This instance receives requests${status.well ? '' : ', but does not do all of its work'}.`
    : 'This instance should not receive requests.';
  return html`<section class="banner ${pageTone(status)}" aria-labelledby="health-title" id="health">
<div class="head"><h2 id="health-title" class="${status.well && health.ready ? 'ok' : 'bad'}">${stateOf(status)}</h2><p>${text} ${summary}</p></div>
${findings.length === 0 ? undefined : html`<ul>${findings.map((one) => item(one, status))}</ul>`}
</section>
`;
}

/** In one or two words. */
export function stateOf({ health: { ready }, well }: Status): string {
  if (!ready) return 'Not ready';
  return well ? 'Ready' : 'Ready, not well';
}

/** That of the worst finding. */
export function pageTone({ health: { ready }, findings: [first] }: Status): Tone {
  return ready ? (first?.severity ?? 'ok') : 'bad';
}

function item(finding: Finding, { at, runbookUrl }: Status): Html {
  const { severity, code, environment, login, caller, summary, advice, runbookSection } = finding;
  const section = sections[code] ?? (environment === null ? 'instance' : 'environments');
  const about = [code, environment, login, caller].filter((part) => part !== null).join(' ');
  const runbook =
    runbookUrl === null
      ? undefined
      : html`<a href="${runbookUrl}${runbookSection}" rel="noreferrer">Runbook</a>`;
  return html`<li>${pill(severity, labels[severity])} <p><a href="#${section}" title="${about}">${inline(summary)}</a>. ${inline(advice)} ${runbook}${payments(finding, at)}</p></li>\n`;
}

function payments({ payments: list }: Finding, now: string): Html | undefined {
  if (list.length === 0) return undefined;
  const more = list.length - maxPayments;
  const rest = html`<br>and ${more} more in <a href="status.json">status.json</a>`;
  const rows = list
    .slice(0, maxPayments)
    .map(
      ({ at, operation, orderId, login, caller, requestId }) =>
        html`<br>${clockTime(now, at)} ${operation ?? ''} order ${orderId === null ? none('unknown') : html`<code>${orderId}</code>`} of ${caller ?? none('unknown')}, login ${login ?? none('unknown')}, request <code>${requestId}</code>`,
    );
  return html`${rows}${more > 0 ? rest : undefined}`;
}

/** The numbers to see first, each a link to its section. */
export function tiles(status: Status): Html {
  return html`<nav aria-label="Sections"><ul class="tiles">
${[traffic, rejected, keys, failures, callers, expiry].map((one) => one(status))}</ul></nav>
`;
}

function tile(section: string, name: string, value: string, detail: string, tone: Tone): Html {
  return html`<li><a href="#${section}" class="${tone}"><span>${name}</span> <strong>${value}</strong> <span>${detail}</span></a></li>\n`;
}

function traffic({ environments }: Status): Html {
  const perSecond = environments.reduce((sum, one) => sum + one.requestsPerSecond, 0);
  const inFlight = environments.reduce((sum, one) => sum + one.inFlight, 0);
  const tone = worst(environments.map(saturation));
  return tile('environments', 'Requests per second', rate(perSecond), `${whole(inFlight)} in flight`, tone);
}

function rejected(status: Status): Html {
  const { environments } = status;
  const [highest] = environments
    .flatMap(({ name, rejectedShare }) => (rejectedShare === null ? [] : [{ name, share: rejectedShare }]))
    .sort((one, other) => other.share - one.share);
  const value = highest === undefined ? '\u2013' : percent(highest.share);
  const tone = worst(environments.map((one) => rejections(one, status)));
  return tile('environments', 'Highest share of rejections', value, highest?.name ?? 'no responses', tone);
}

function keys(status: Status): Html {
  const { total, list } = status.keys;
  const origin = originOf(status);
  const progress = list.map((key) => keyProgress(key, origin).map(({ severity }) => severity));
  const waiting = progress.filter((all) => all.includes('info')).length;
  const failing = progress.filter((all) => all.some((severity) => severity !== 'info')).length;
  const details = [
    ...(failing > 0 ? [counted(failing, 'problem')] : []),
    ...(waiting > 0 ? [counted(waiting, 'rotation')] : []),
  ];
  const normal = total === 0 ? 'none needed yet' : 'newest versions sign';
  return tile('keys', 'Keys in use', whole(total), details.join(', ') || normal, worst(progress.flat()));
}

function failures({ at, failures: list }: Status): Html {
  const [newest] = list;
  const value = list.length >= maxFailures ? `${maxFailures}+` : whole(list.length);
  const detail = newest === undefined ? 'since the start' : `last ${relative(at, newest.at)}`;
  return tile('failures', 'Failed requests', value, detail, 'ok');
}

function callers({ callers: list }: Status): Html {
  const denied = list.reduce((sum, one) => sum + one.denied, 0);
  const detail = denied === 0 ? 'none denied' : `${counted(denied, 'request')} denied`;
  return tile('callers', 'Callers', whole(list.length), detail, 'ok');
}

function expiry({ at, certificates }: Status): Html {
  const [first] = certificates.toSorted((one, other) => secondsBetween(other.until, one.until));
  const tone = worst(certificates.map((one) => lifetime(at, one).severity));
  if (first === undefined) return tile('certificates', 'Next expiry', '\u2013', 'no certificates', tone);
  const seconds = secondsBetween(at, first.until);
  return tile('certificates', 'Next expiry', seconds > 0 ? span(seconds) : 'expired', first.name, tone);
}
