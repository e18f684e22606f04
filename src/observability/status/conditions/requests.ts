import type { Limit } from '../../../errors.ts';
import { counted, secondsBetween, since } from '../format.ts';
import { callerLimitedFor, saturation } from '../thresholds.ts';
import { type Conditions, checkOnline, failures } from './condition.ts';

/** What to do about another limit than that of the environment. */
const remedies: Readonly<Record<string, string>> = {
  'proxy.maxBufferedBytes': 'Is the gateway slow, or are forms large? Otherwise add memory and raise it.',
  'signing.maxQueue': 'RSA signatures wait for CPU: add CPU or instances.',
  'keys.vault.transit': 'Is Vault slow? Otherwise raise its `maxInFlight` or `maxPerSecond`.',
  'key reads': `${checkOnline} Add instances if keys can be read.`,
} satisfies Record<Exclude<Limit, `${string}.maxInFlight`>, string>;

/** How many requests fail or take long, and what there is no room for. */
export const ofRequests = {
  failing: {
    when: 'More requests fail than the SLO allows: the error budget of the month is used up in days (page), or before its end (ticket).',
    todo: 'The findings of the status say why.',
    alert: 'CountersignErrorBudgetBurn',
    core: true,
    title: '<value|humanizePercentage> of the requests to <environment> fail',
    ...burn('failures', '$failureBudget', 'failures:increase6h >= $failureCount'),
  },
  slow: {
    severity: 'warn',
    when: 'More requests take longer than 2.5 s than the SLO allows.',
    // Of ten in the last minute, or more.
    find: ({ environments }) =>
      environments.map(({ name: environment, latency, requestsPerSecond }) => {
        if (latency === null || latency.p50 < 2.5 || requestsPerSecond < 10 / 60) return undefined;
        const summary = `Half of the requests to ${environment} take ${latency.p50.toFixed(1)} s or longer`;
        return { summary, environment };
      }),
    todo: 'Is the gateway slow, or Countersign? The log has `gatewayMs` beside `totalMs`.',
    alert: 'CountersignLatencyBudgetBurn',
    title: '<value|humanizePercentage> of the requests to <environment> take longer than 2.5 s',
    ...burn('slow', '$latencyBudget', 'requests:increase6h >= $latencyCount'),
  },
  'internal-error': {
    when: 'Requests failed because of a defect of Countersign.',
    ...failures({ internal: 'internal error' }),
    todo: 'The log has a line for each, with the stack: give it to the developers.',
    section: 'Internal error',
  },
  saturated: {
    when: "More than 80 % of an environment's requests in flight are used, or requests were rejected as `overloaded`.",
    ...failures(
      { overloaded: (limit) => [`a limit was reached, the last one \`${limit}\``, remedies[limit]] },
      ({ environments }) =>
        environments.map((one) => {
          const { name: environment, inFlight, maxInFlight } = one;
          const severity = saturation(one);
          if (severity === 'ok') return undefined;
          const summary = `${environment} is ${severity === 'bad' ? 'at' : 'near'} its limit \`environments.*.maxInFlight\``;
          const state = [`${inFlight} of ${maxInFlight} requests in flight; callers beyond get 503.`];
          return { severity, summary, state, environment };
        }),
    ),
    todo: 'Is the gateway slow? Otherwise add instances or raise `maxInFlight`. If one caller has most of it, limit that one with `callers[].maxInFlight`.',
    alert: 'CountersignSaturated',
    core: true,
    title: '<environment> on <instance> is near its limit of requests in flight, maxInFlight',
    page: 'max by (namespace, release, environment, instance) (countersign_requests_in_flight / countersign_requests_in_flight_limit) > $saturationRatio',
    for: '5m',
  },
} satisfies Conditions;

/** What callers may not do. */
export const ofCallers = {
  'caller-limited': {
    severity: 'warn',
    when: 'A caller got 429 in the last minute, because of its `maxInFlight`.',
    find: ({ at, callers }) =>
      callers.map(({ name: caller, limited, limitedAt }) => {
        if (limitedAt === null || secondsBetween(limitedAt, at) >= callerLimitedFor) return undefined;
        const summary = `${caller} sends more requests at a time than its limit allows: ${counted(limited, 'request')} got 429 since the start, the last one ${since(at, limitedAt)} ago`;
        return { summary, caller };
      }),
    todo: 'Nothing was sent for these, and other callers are not affected. Does it send more than it should, or is the gateway slow? Otherwise raise `maxInFlight` of the caller.',
    section: 'Caller limit',
    causes: ['caller-limit'],
  },
  'caller-denied': {
    when: 'A caller often requests what it has no grant for, or credentials are unknown (caller none).',
    todo: 'Add the grant, or find out who that is.',
    alert: 'CountersignAuthorizationDenials',
    title: '<value|humanize> requests of <caller> in 15 minutes were denied',
    ticket: `
        sum by (namespace, release, caller) (increase(countersign_authorization_decisions_total{decision="denied"}[15m])) >= $authorizationDenialsCount
          or
        sum by (namespace, release, caller) (increase(countersign_requests_total{reason="caller-unknown"}[15m])) >= $unknownCallersCount`,
    causes: ['not-allowed', 'caller-unknown'],
  },
  'caller-dry-run': {
    severity: 'warn',
    when: 'A caller is in dry-run: its grants are not enforced.',
    // One for all callers: the remedy is the same.
    find({ callers }) {
      const [first, ...others] = callers.filter(({ mode }) => mode === 'dry-run');
      if (first === undefined) return undefined;
      const { name: caller } = first;
      const more = others.length === 0 ? '' : ` and ${counted(others.length, 'other caller')}`;
      return { summary: `Every request of ${caller}${more} is let through: mode is dry-run`, caller };
    },
    todo: 'Set `enforce` when the log has no more requests with the decision `would-deny`.',
    section: 'CountersignAuthorizationDenials',
  },
} satisfies Conditions;

/**
 * On an SLO, as in the SRE workbook, chapter 5. Page: 2 % of the budget of 30 days in one hour or 5 % in six; ticket: 10 %
 * in one or three days. A few failed requests at night do not page.
 */
function burn(what: 'failures' | 'slow', budget: `$${string}`, enough: string) {
  const above = (factor: number, long: string, short: string): string =>
    [long, short]
      .map((window) => `environment:countersign_${what}:ratio_rate${window} > ${factor} * ${budget}`)
      .join('\n  and\n');
  return {
    page: `(\n${above(14.4, '1h', '5m')}\n  or\n${above(6, '6h', '30m')}\n)\n  and on (namespace, release, environment)\nenvironment:countersign_${enough}`,
    ticket: `${above(3, '1d', '2h')}\n  or\n${above(1, '3d', '6h')}`,
    for: '2m',
  };
}
