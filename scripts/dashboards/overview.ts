import { instances } from './instances.ts';
import {
  aggregate,
  type DashboardModel,
  medianAndWorst,
  onRoute,
  perSecond,
  quantile,
  type Section,
  share,
} from './model.ts';

const now: Section = {
  title: 'Now',
  panels: [
    {
      title: 'Requests',
      description: 'Exchanges that ended, a second.',
      kind: 'stat',
      unit: 'reqps',
      queries: [
        { expr: perSecond('request_outcomes_total', onRoute, 'environment'), legend: '{{environment}}' },
      ],
    },
    {
      title: 'Failures',
      description:
        'Share of the exchanges that failed through Countersign or the gateway; mistakes of callers do not count. The objective is 0.1 % over 30 days.',
      kind: 'stat',
      unit: 'percentunit',
      redFrom: 0.01,
      runbook: 'CountersignErrorBudgetBurnFast',
      queries: [
        {
          expr: share(
            'request_outcomes_total',
            'fault=~"countersign|gateway"',
            `${onRoute}, fault!="caller"`,
            'environment',
          ),
          legend: '{{environment}}',
        },
      ],
    },
    {
      title: 'Slowest hundredth',
      description: '99 % of the exchanges take less time than this, the gateway included.',
      kind: 'stat',
      unit: 's',
      redFrom: 2.5,
      runbook: 'CountersignLatencyBudgetBurnFast',
      queries: [
        {
          expr: quantile(0.99, 'request_duration_seconds', onRoute, 'environment'),
          legend: '{{environment}}',
        },
      ],
    },
    {
      title: 'Outcome unknown',
      description:
        'Exchanges in the time shown of which nobody knows whether the gateway carried them out. Nobody may repeat one before its order was asked for.',
      kind: 'stat',
      unit: 'short',
      redFrom: 1,
      runbook: 'CountersignOutcomeUnknown',
      queries: [
        {
          expr: aggregate(
            'sum',
            'environment',
            `increase(countersign_request_outcomes_total{${onRoute}, outcome="unknown"}[$__range])`,
          ),
          legend: '{{environment}}',
        },
      ],
    },
  ],
};

const requests: Section = {
  title: 'Traffic',
  panels: [
    {
      title: 'Requests by operation',
      description: 'Exchanges that ended, a second, whatever became of them.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [{ expr: perSecond('request_outcomes_total', onRoute, 'operation'), legend: '{{operation}}' }],
    },
    {
      title: 'Outcomes',
      description:
        'What became of exchanges at the gateway, and who has to act where they failed: the caller, those who run Countersign, the gateway.',
      kind: 'timeseries',
      unit: 'reqps',
      runbook: 'CountersignOutcomeUnknown',
      queries: [
        {
          expr: perSecond('request_outcomes_total', onRoute, 'outcome, fault'),
          legend: '{{outcome}}, fault {{fault}}',
        },
      ],
    },
    {
      title: 'Failures by reason',
      description: 'Answers with a 5xx status. Reason none: the gateway gave it and it was passed on.',
      kind: 'timeseries',
      unit: 'reqps',
      runbook: 'CountersignErrorBudgetBurnFast',
      queries: [
        { expr: perSecond('requests_total', `${onRoute}, status=~"5.."`, 'reason'), legend: '{{reason}}' },
      ],
    },
    {
      title: 'Duration of exchanges',
      description:
        'From the head of a request to the end of its answer. Dots are traces, where callers send a trace id and exemplars are stored.',
      kind: 'timeseries',
      unit: 's',
      redFrom: 2.5,
      runbook: 'CountersignLatencyBudgetBurnFast',
      queries: medianAndWorst('request_duration_seconds', onRoute, 'operation'),
    },
  ],
};

const gateway: Section = {
  title: 'Gateway',
  panels: [
    {
      title: 'Gateway replies',
      description: 'Replies of the gateway by status, retries counted one by one.',
      kind: 'timeseries',
      unit: 'reqps',
      runbook: 'CountersignGatewayRejections',
      queries: [{ expr: perSecond('gateway_responses_total', onRoute, 'status'), legend: '{{status}}' }],
    },
    {
      title: 'Gateway duration',
      description:
        'One request to the gateway and its reply. What exchanges take longer is Countersign itself.',
      kind: 'timeseries',
      unit: 's',
      redFrom: 2.5,
      runbook: 'CountersignLatencyBudgetBurnFast',
      queries: medianAndWorst('gateway_request_duration_seconds', onRoute, 'operation'),
    },
    {
      title: 'Connection failures',
      description:
        'Connections to the gateway that could not be made: dns, refused, timeout, tls, other. Nothing was sent on them.',
      kind: 'timeseries',
      unit: 'reqps',
      runbook: 'CountersignErrorBudgetBurnFast',
      queries: [
        { expr: perSecond('gateway_connection_failures_total', onRoute, 'cause'), legend: '{{cause}}' },
      ],
    },
    {
      title: 'Server errors on payments',
      description:
        'Gateway 5xx responses to operations that are not read-only. The payment may have been carried out: query its order before sending it again.',
      kind: 'timeseries',
      unit: 'reqps',
      runbook: 'CountersignPaymentServerError',
      queries: [
        {
          expr: perSecond('payment_server_errors_total', onRoute, 'environment, operation'),
          legend: '{{environment}} {{operation}}',
        },
      ],
    },
    {
      title: 'Results',
      description: 'The status field of form-encoded replies: approved, declined, error, filtered, other.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [{ expr: perSecond('gateway_results_total', onRoute, 'result'), legend: '{{result}}' }],
    },
    {
      title: 'Error codes',
      description: 'The error-code field of form-encoded replies. 124: client_orderid is ambiguous.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [{ expr: perSecond('gateway_error_codes_total', onRoute, 'code'), legend: '{{code}}' }],
    },
  ],
};

export const overview: DashboardModel = {
  uid: 'countersign-overview',
  title: 'Countersign: overview',
  description: 'Is it working, and if not: Countersign, the gateway, or a caller?',
  sections: [now, requests, gateway, instances],
};
