import { instances } from './instances.ts';
import {
  aggregate,
  type DashboardModel,
  inEnvironment,
  medianAndP99,
  onRoute,
  perSecond,
  quantile,
  type Section,
  share,
} from './model.ts';

const atAGlance: Section = {
  title: 'At a glance',
  panels: [
    {
      title: 'Requests',
      purpose: 'Incident: do requests still arrive, and of which environment?',
      description: 'Requests per second.',
      kind: 'stat',
      unit: 'reqps',
      queries: { '{{environment}}': perSecond('request_outcomes_total', onRoute, 'environment') },
    },
    {
      title: 'Failures',
      purpose:
        'Incident: does Countersign or the gateway fail, and how much of the error budget does it take?',
      description:
        'Ratio of requests that failed because of Countersign or the gateway; client errors do not count. The objective is 0.1 % over 30 days.',
      kind: 'stat',
      unit: 'percentunit',
      redFrom: 0.01,
      runbook: 'CountersignErrorBudgetBurn',
      queries: {
        '{{environment}}': share(
          'request_outcomes_total',
          'fault=~"countersign|gateway"',
          `${onRoute}, fault!="caller"`,
          'environment',
        ),
      },
    },
    {
      title: 'p99 latency',
      purpose: 'Incident: callers wait too long.',
      description: '99 % of requests take less time than this, including the gateway.',
      kind: 'stat',
      unit: 's',
      redFrom: 2.5,
      runbook: 'CountersignLatencyBudgetBurn',
      queries: { '{{environment}}': quantile(0.99, 'request_duration_seconds', onRoute, 'environment') },
    },
    {
      title: 'Unknown outcomes',
      purpose: 'Incident: payments whose order has to be queried before anybody retries.',
      description:
        'Requests in this time range that the gateway may or may not have processed. Check the order before retrying.',
      kind: 'stat',
      unit: 'short',
      redFrom: 1,
      runbook: 'CountersignOutcomeUnknown',
      queries: {
        '{{environment}}': aggregate(
          'sum',
          'environment',
          `increase(countersign_request_outcomes_total{${onRoute}, outcome="unknown"}[$__range])`,
        ),
      },
    },
  ],
};

const requests: Section = {
  title: 'Traffic',
  panels: [
    {
      title: 'Outcomes',
      purpose: 'Incident: who has to act?',
      description:
        'Requests by outcome at the gateway, and by who has to act on failed ones: caller, countersign (its operators) or gateway.',
      unit: 'reqps',
      runbook: 'CountersignOutcomeUnknown',
      queries: {
        '{{outcome}}, fault {{fault}}': perSecond('request_outcomes_total', onRoute, 'outcome, fault'),
      },
    },
    {
      title: 'Failures by reason',
      purpose: 'Incident: which cause do the failures have?',
      description: 'Responses with a 5xx status. reason=none: a forwarded gateway response.',
      unit: 'reqps',
      runbook: 'CountersignErrorBudgetBurn',
      queries: { '{{reason}}': perSecond('requests_total', `${onRoute}, status=~"5.."`, 'reason') },
    },
    {
      title: 'Request duration',
      purpose: 'Incident: which operation is slow, and since when?',
      description:
        'From headers received to response sent. Dots are traces, if callers send a trace ID and exemplars are stored.',
      unit: 's',
      redFrom: 2.5,
      runbook: 'CountersignLatencyBudgetBurn',
      queries: medianAndP99('request_duration_seconds', onRoute, 'operation'),
    },
  ],
};

const gateway: Section = {
  title: 'Gateway',
  panels: [
    {
      title: 'Gateway responses',
      purpose: 'Incident: what does the gateway respond, once its connection works?',
      description: 'Gateway responses by status, including retries.',
      unit: 'reqps',
      runbook: 'CountersignGatewayRejections',
      queries: { '{{status}}': perSecond('gateway_responses_total', onRoute, 'status') },
    },
    {
      title: 'Gateway duration',
      purpose: 'Incident: is it the gateway that is slow, or Countersign?',
      description:
        'Duration of a single gateway request. The difference to the request duration is Countersign itself.',
      unit: 's',
      redFrom: 2.5,
      runbook: 'CountersignLatencyBudgetBurn',
      queries: medianAndP99('gateway_request_duration_seconds', onRoute, 'operation'),
    },
    {
      title: 'Connection failures',
      purpose: 'Incident: the gateway cannot be reached.',
      description:
        'Failed connections to the gateway: dns, refused, timeout, tls, other. Nothing was sent on them.',
      unit: 'reqps',
      runbook: 'CountersignErrorBudgetBurn',
      queries: { '{{cause}}': perSecond('gateway_connection_failures_total', onRoute, 'cause') },
    },
    {
      title: 'Server errors on payments',
      purpose: 'Incident: payments that the gateway may have processed although it failed.',
      description:
        'Gateway 5xx responses to operations that are not read-only. The payment may have been processed: check the order before retrying.',
      unit: 'reqps',
      runbook: 'CountersignOutcomeUnknown',
      queries: {
        '{{environment}} {{operation}}': perSecond(
          'payment_server_errors_total',
          onRoute,
          'environment, operation',
        ),
      },
    },
    {
      title: 'Results',
      purpose: 'Incident: more payments are declined, though nothing fails.',
      description:
        'The status field of form-encoded gateway responses: final (approved, declined, error, filtered) or not (processing, unknown, chain_declined), or other. And callbacks: verified, not-verified, key-missing. And responses about another order than the request.',
      unit: 'reqps',
      queries: {
        '{{result}}': perSecond('gateway_results_total', onRoute, 'result'),
        'callback {{result}}': perSecond('callbacks_total', inEnvironment, 'result'),
        'another order {{environment}}': perSecond('order_mismatches_total', onRoute, 'environment'),
      },
    },
  ],
};

export const overview: DashboardModel = {
  uid: 'countersign-overview',
  title: 'Countersign: overview',
  description: 'Is it working, and if not: Countersign, the gateway, or a caller?',
  sections: [atAGlance, requests, gateway, instances],
};
