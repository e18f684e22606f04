import { latency, percent, rate, skew, whole } from '../format.ts';
import { clockDifference, failing, rejections, saturation } from '../limits.ts';
import type { Status } from '../schema.ts';
import { type Html, html } from './html.ts';
import { bar, type Column, none, section, severityOf, table, toned, withDetail } from './parts.ts';

type Environment = Status['environments'][number];

const columnsOf = (status: Status): readonly Column<Environment>[] => [
  { heading: 'Environment', cell: ({ name, gatewayHost }) => withDetail(name, gatewayHost) },
  { heading: 'In flight', cell: inFlight },
  { heading: 'Requests/s', align: 'number', cell: ({ requestsPerSecond }) => rate(requestsPerSecond) },
  {
    heading: 'Failed',
    align: 'number',
    cell: ({ failedShare }) =>
      failedShare === null
        ? none('no requests')
        : toned(failedShare === 0 ? 'ok' : failing(failedShare), percent(failedShare)),
  },
  {
    heading: '403 share',
    align: 'number',
    cell: (one) =>
      one.rejectedShare === null
        ? none('no responses')
        : toned(rejections(one, status), percent(one.rejectedShare)),
  },
  { heading: 'p50', align: 'number', cell: (one) => quantile(one, 'p50') },
  { heading: 'p99', align: 'number', cell: (one) => quantile(one, 'p99') },
  {
    heading: 'Clock skew',
    align: 'number',
    cell: (one) =>
      one.clockSkew === null ? none('unknown') : toned(clockDifference(one), skew(one.clockSkew)),
  },
];

export function environments(status: Status): Html {
  const hint = 'Rates, shares and latencies of the last minute';
  const listing = {
    id: 'environments',
    noun: 'environment',
    key: ({ name }: Environment) => name,
    columns: columnsOf(status),
    tone: ({ name }: Environment) =>
      severityOf(status.findings.filter(({ environment, login }) => environment === name && login === null)),
  };
  return section({ id: 'environments', title: 'Environments', hint }, table(listing, status.environments));
}

function inFlight(one: Environment): Html {
  const tone = saturation(one);
  const limit = html` <span class="detail">of ${whole(one.maxInFlight)}</span>`;
  return html`${toned(tone, whole(one.inFlight))}${limit} ${bar(one.inFlight / one.maxInFlight, tone)}`;
}

function quantile({ latency: both }: Environment, which: 'p50' | 'p99'): string | Html {
  return both === null ? none('no requests') : latency(both[which]);
}
