import type { FindingCode } from '../finding-codes.ts';
import { counted } from '../format.ts';
import type { Finding, Status } from '../schema.ts';
import { type Html, html, inline, pill, type Tone } from './parts.ts';

const labels: Readonly<Record<Finding['severity'], string>> = {
  bad: 'Act now',
  warn: 'Act soon',
  info: 'In progress',
};

/** Of a finding; the others are in `/status.json`. */
const maxRequestIds = 10;

/** The section of the page that shows what a finding is about, unless it is that of the environments or the instance. */
const sections: Readonly<Partial<Record<FindingCode, string>>> = {
  'key-source-never-reached': 'key-source',
  'key-source-down': 'key-source',
  'vault-token-expired': 'key-source',
  'outcome-unknown': 'failures',
  'payment-server-error': 'failures',
  'key-missing': 'keys',
  'key-unusable': 'keys',
  'key-rejected': 'keys',
  'key-waiting': 'keys',
  'keys-stale': 'keys',
  'certificate-expiring': 'certificates',
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
${findings.length === 0 ? undefined : html`<ul>${findings.map((one) => item(one, status.runbookUrl))}</ul>`}
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

function item(finding: Finding, runbookUrl: string | null): Html {
  const { severity, code, environment, login, caller, summary, advice, runbookSection } = finding;
  const section = sections[code] ?? (environment === null ? 'instance' : 'environments');
  const about = [code, environment, login, caller].filter((part) => part !== null).join(' ');
  const runbook =
    runbookUrl === null
      ? html`<span class="detail" title="${runbookSection}">Runbook</span>`
      : html`<a href="${runbookUrl}${runbookSection}" rel="noreferrer">Runbook</a>`;
  return html`<li>${pill(severity, labels[severity])} <p><a href="#${section}" title="${about}">${inline(summary)}</a>. ${inline(advice)} ${runbook}${requests(finding)}</p></li>\n`;
}

function requests({ requestIds }: Finding): Html | undefined {
  if (requestIds.length === 0) return undefined;
  const more = requestIds.length - maxRequestIds;
  const rest = html` and ${more} more in <a href="status.json">status.json</a>`;
  return html` Requests: ${requestIds.slice(0, maxRequestIds).map((id) => html`<code>${id}</code> `)}${more > 0 ? rest : undefined}`;
}
