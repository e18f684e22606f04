import type { FailedRequest } from '../facts.ts';
import type { Status } from '../schema.ts';
import { clockTime, type Html, html, listingSection, none, pill, withDetail } from './parts.ts';

/** Newest first. */
export function failedRequests({ at, failures: list, runbookUrl }: Status): Html {
  return listingSection(list, {
    id: 'failures',
    title: 'Failed requests',
    hint: 'The last 100; search the log for the request ID',
    noun: 'failed request',
    empty: 'No request has failed since the start.',
    columns: [
      ['Time (UTC)', (one) => clockTime(at, one.at)],
      ['Cause', (one) => cause(one, runbookUrl)],
      ['Status', ({ status }) => status ?? none('no response')],
      ['Outcome', ({ outcome }) => pill(outcome === 'unknown' ? 'bad' : 'idle', outcome)],
      ['Caller', ({ caller }) => caller ?? none('unknown')],
      ['Environment', ({ environment }) => environment ?? none('unknown')],
      ['Operation', ({ operation }) => operation ?? none('unknown')],
      ['Login', ({ login }) => login ?? none('none')],
      [
        'Request ID',
        ({ requestId, orderId }) =>
          withDetail(html`<code>${requestId}</code>`, orderId === null ? '' : `order ${orderId}`),
      ],
    ],
  });
}

function cause({ cause: text, requestId, runbookSection }: FailedRequest, runbookUrl: string | null): Html {
  const name = html`<code>${text}</code>`;
  if (runbookSection === null || runbookUrl === null) return name;
  return html`<a id="request ${requestId}" href="${runbookUrl}${runbookSection}" rel="noreferrer">${name}</a>`;
}
