import { counted } from '../format.ts';
import type { Finding, Status } from '../schema.ts';
import { clockTime, type Html, html, inline, none, pill, type Tone } from './parts.ts';

const labels: Readonly<Record<Finding['severity'], string>> = {
  bad: 'Act now',
  warn: 'Act soon',
  info: 'In progress',
};

/** Of a finding; the others are in `/status.json`. */
const maxPayments = 10;

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
  const about = [code, environment, login, caller].filter((part) => part !== null).join(' ');
  const runbook =
    runbookUrl === null
      ? undefined
      : html` <a href="${runbookUrl}${runbookSection}" rel="noreferrer">Runbook</a>`;
  return html`<li id="${about}">${pill(severity, labels[severity])} <p><strong title="${about}">${inline(summary)}.</strong> ${inline(advice)}${runbook}${payments(finding, at)}</p></li>\n`;
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
