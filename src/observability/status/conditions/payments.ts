import { counted } from '../format.ts';
import { maxUncertainPayments } from '../thresholds.ts';
import { type Conditions, type Found, quiet } from './condition.ts';

/** What became of payments. */
export const ofPayments = {
  'outcome-unknown': {
    severity: 'bad',
    when: 'A payment was sent, and no complete response or a 5xx came back: it may have been processed. A finding has those of the last hour.',
    find({ at, uncertainPayments: list }) {
      return byEnvironment(list, (payments, newest, environment) => {
        const [login = null, ...others] = new Set(payments.map((one) => one.login));
        const answered = payments.filter(({ outcome }) => outcome === 'answered').length;
        const how = [
          ...(answered < payments.length ? ['sent without a complete response'] : []),
          ...(answered > 0 ? ['answered with a server error'] : []),
        ];
        const more =
          payments.length < maxUncertainPayments ? '' : 'There may be more: the log has all of them.';
        return {
          summary: `${counted(payments.length, 'payment')} of ${environment ?? 'an unknown environment'} in the last hour ${how.join(', or ')}`,
          state: [quiet(at, newest.at), 'Each may have been processed.', more],
          login: others.length === 0 ? login : null,
          payments,
        };
      });
    },
    todo: 'Query the order status of each (about a refund a person decides), and do not send it again before that: `countersign status --json | countersign payments query`.',
    alert: 'CountersignOutcomeUnknown',
    core: true,
    title: 'Unknown outcome of <operation> in <environment>',
    page: `
        sum by (namespace, release, environment, operation) (
          increase(countersign_request_outcomes_total{outcome="unknown", fault!="caller"}[10m])
        ) > 0
          and sum by (namespace, release, environment, operation) (countersign_payment_server_errors_total)
          or
        sum by (namespace, release, environment, operation) (increase(countersign_payment_server_errors_total[10m])) > 0`,
    keepFiringFor: '30m',
  },
  'order-mismatch': {
    when: 'A response is about another order than its request. Warn, and no alert: about another amount or currency.',
    find: ({ orderMismatches }) =>
      byEnvironment(orderMismatches, (responses, { operation, requestId, field }, environment) => {
        const severity = responses.some((response) => response.field === 'order-id') ? 'bad' : 'warn';
        const about = severity === 'bad' ? 'order' : 'amount or currency';
        return {
          severity,
          summary: `${counted(responses.length, 'response')} of ${environment} in the last hour about another ${about} than the request`,
          state: [`The last one: ${field} of ${operation}, request ${requestId}.`],
        };
      }),
    todo: 'Query the status of these orders before anybody acts on such a response, and ask the support of the gateway.',
    alert: 'CountersignOrderMismatch',
    title: 'Responses of <environment> are about other orders',
    page: 'sum by (namespace, release, environment) (increase(countersign_order_mismatches_total{field="order-id"}[10m])) > 0',
    keepFiringFor: '30m',
  },
} satisfies Conditions;

/** One for each environment. */
function byEnvironment<T extends { readonly environment: string | null }>(
  list: readonly T[],
  find: (all: T[], first: T, environment: string | null) => Found,
): Found[] {
  return [...Map.groupBy(list, ({ environment }) => environment)].flatMap(([environment, all]) =>
    all[0] === undefined ? [] : [{ ...find(all, all[0], environment), environment }],
  );
}
