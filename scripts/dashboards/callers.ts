import {
  aggregate,
  type DashboardModel,
  inRelease,
  onRoute,
  perSecond,
  type Section,
  share,
} from './model.ts';

/** With the requests that were rejected before their route was known: their environment and operation are `none`. */
const anyRoute = `${inRelease}, environment=~"$environment|none", operation=~"$operation|none"`;

const traffic: Section = {
  title: 'Requests',
  panels: [
    {
      title: 'Requests by caller',
      description: 'Exchanges that ended, a second. Caller none: not authenticated.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [{ expr: perSecond('requests_total', onRoute, 'caller'), legend: '{{caller}}' }],
    },
    {
      title: 'Requests by caller and operation',
      description: 'What each caller does.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [
        {
          expr: perSecond('requests_total', onRoute, 'caller, operation'),
          legend: '{{caller}} {{operation}}',
        },
      ],
    },
    {
      title: 'Failures by caller',
      description: 'Share of the answers to a caller with a 5xx status.',
      kind: 'timeseries',
      unit: 'percentunit',
      redFrom: 0.01,
      runbook: 'CountersignErrorBudgetBurnFast',
      queries: [{ expr: share('requests_total', 'status=~"5.."', onRoute, 'caller'), legend: '{{caller}}' }],
    },
    {
      title: 'Mistakes of callers',
      description:
        'Requests that Countersign answered with a 4xx status: the reason tells the caller what to change.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [
        {
          expr: perSecond('requests_total', `${anyRoute}, status=~"4..", reason!="none"`, 'caller, reason'),
          legend: '{{caller}}: {{reason}}',
        },
      ],
    },
  ],
};

const policy: Section = {
  title: 'Policy',
  panels: [
    {
      title: 'Decisions',
      description: 'Decisions on callers, a second, for all environments.',
      kind: 'timeseries',
      unit: 'reqps',
      runbook: 'CountersignAuthorizationDenials',
      queries: [
        {
          expr: perSecond('authorization_decisions_total', inRelease, 'caller, decision'),
          legend: '{{caller}}: {{decision}}',
        },
      ],
    },
    {
      title: 'Would be refused',
      description:
        'Requests of callers in report mode that enforce would refuse. At 0 for a week: the mode can be changed.',
      kind: 'timeseries',
      unit: 'short',
      queries: [
        {
          expr: aggregate(
            'sum',
            'caller',
            `increase(countersign_authorization_decisions_total{${inRelease}, decision="would-deny"}[$__rate_interval])`,
          ),
          legend: '{{caller}}',
        },
      ],
    },
    {
      title: 'Requests refused',
      description:
        'not-allowed: a known caller without the grant. caller-unknown: credentials that nobody has.',
      kind: 'timeseries',
      unit: 'reqps',
      runbook: 'CountersignAuthorizationDenials',
      queries: [
        {
          expr: perSecond(
            'requests_total',
            `${anyRoute}, reason=~"not-allowed|caller-unknown"`,
            'caller, reason',
          ),
          legend: '{{caller}}: {{reason}}',
        },
      ],
    },
  ],
};

export const callers: DashboardModel = {
  uid: 'countersign-callers',
  title: 'Countersign: callers',
  description: 'Who asks for what, what they get, and what policy says to it.',
  sections: [traffic, policy],
};
