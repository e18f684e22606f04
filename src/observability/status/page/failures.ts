import type { FailedRequest, Status } from '../schema.ts';
import { type Html, html } from './html.ts';
import { type Column, clockTime, empty, none, pill, section, type Tone, table } from './parts.ts';

type Outcome = FailedRequest['outcome'];

const outcomes: Readonly<Record<Outcome, Tone>> = { answered: 'idle', 'not-sent': 'idle', unknown: 'bad' };

export function failures({ at, failures: list, runbookUrl }: Status): Html {
  const columns: readonly Column<FailedRequest>[] = [
    { heading: 'Time (UTC)', cell: (one) => clockTime(at, one.at) },
    { heading: 'Cause', cell: (one) => cause(one, runbookUrl) },
    { heading: 'Status', cell: ({ status }) => status?.toString() ?? none('no response') },
    { heading: 'Outcome', cell: ({ outcome }) => pill(outcomes[outcome], outcome) },
    { heading: 'Caller', cell: ({ caller }) => caller ?? none('unknown') },
    { heading: 'Environment', cell: ({ environment }) => environment ?? none('unknown') },
    { heading: 'Operation', cell: ({ operation }) => operation ?? none('unknown') },
    { heading: 'Login', cell: ({ login }) => login ?? none('none') },
    { heading: 'Request ID', cell: ({ requestId }) => html`<code>${requestId}</code>` },
  ];
  const listing = {
    id: 'failures',
    noun: 'failed request',
    key: (one: FailedRequest) => `${one.at} ${one.requestId}`,
    columns,
  };
  return section(
    { id: 'failures', title: 'Failed requests', hint: 'The last 100; search the log for the request ID' },
    list.length === 0 ? empty('No request has failed since the start.') : table(listing, list),
  );
}

function cause({ cause: text, runbookSection }: FailedRequest, runbookUrl: string | null): Html {
  if (runbookSection === null) return html`<code>${text}</code>`;
  if (runbookUrl === null) {
    return html`<code title="Runbook: ${runbookSection}">${text}</code>`;
  }
  return html`<a href="${runbookUrl}${runbookSection}" rel="noreferrer"><code>${text}</code></a>`;
}
