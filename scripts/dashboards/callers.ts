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
      description: 'Requests per second. caller=none means not authenticated.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [{ expr: perSecond('requests_total', onRoute, 'caller'), legend: '{{caller}}' }],
    },
    {
      title: 'Requests by caller and operation',
      description: 'Requests per second by caller and operation.',
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
      description: 'Ratio of 5xx responses by caller.',
      kind: 'timeseries',
      unit: 'percentunit',
      redFrom: 0.01,
      runbook: 'CountersignErrorBudgetBurnFast',
      queries: [{ expr: share('requests_total', 'status=~"5.."', onRoute, 'caller'), legend: '{{caller}}' }],
    },
    {
      title: 'Client errors (4xx)',
      description:
        'Requests that Countersign rejected with a 4xx status. The reason says what the client has to change.',
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

const authorization: Section = {
  title: 'Authorization',
  panels: [
    {
      title: 'Decisions',
      description: 'Authorization decisions per second, for all environments.',
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
      title: 'Would be denied',
      description:
        'Requests of callers in dry-run mode that enforce mode would deny. After a week at 0, switch to enforce.',
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
      title: 'Denied requests',
      description:
        'not-allowed: an authenticated caller without a grant. caller-unknown: unknown or invalid credentials.',
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

const tokens: Section = {
  title: 'JSON Web Tokens',
  panels: [
    {
      title: 'Tokens by result',
      description:
        'Tokens per second by issuer and result. issuer=none: no configured issuer made the token.',
      kind: 'timeseries',
      unit: 'reqps',
      runbook: 'CountersignAuthorizationDenials',
      queries: [
        {
          // Most results never occur.
          expr: `${perSecond('jwt_verifications_total', inRelease, 'issuer, result')} > 0`,
          legend: '{{issuer}}: {{result}}',
        },
      ],
    },
    {
      title: "Age of the issuers' keys",
      description:
        'Time since the public keys of an issuer were last fetched, on the instance where it is longest.',
      kind: 'timeseries',
      unit: 's',
      redFrom: 3600,
      runbook: 'CountersignJwtKeysStale',
      queries: [
        {
          expr: aggregate(
            'max',
            'issuer',
            `time() - countersign_jwt_keys_fetched_timestamp_seconds{${inRelease}}`,
          ),
          legend: '{{issuer}}',
        },
      ],
    },
  ],
};

const inAnyEnvironment = `${inRelease}, environment=~"$environment|none"`;

const tls: Section = {
  title: 'TLS',
  panels: [
    {
      title: 'TLS connections',
      description:
        'TLS connections since the start by our end (role), negotiated version and cipher suite, also those with servers. minVersion 1.3 would reject those with TLS 1.2: the log names their clients. Empty without TLS.',
      kind: 'timeseries',
      unit: 'short',
      queries: [
        {
          // A rate would not show the first connection of a combination, which may be the only one for days.
          expr: aggregate(
            'sum',
            'role, environment, version, cipher',
            `max_over_time(countersign_tls_connections_total{${inAnyEnvironment}}[$__range])`,
          ),
          legend: '{{role}} {{environment}} {{version}} {{cipher}}',
        },
      ],
    },
    {
      title: 'Failed TLS handshakes',
      description:
        'TLS handshakes per second that failed because of the version, the cipher suites, a certificate, or another mistake of the peer. The log names the peer and the cause.',
      kind: 'timeseries',
      unit: 'ops',
      queries: [
        {
          expr: perSecond('tls_handshake_failures_total', inAnyEnvironment, 'problem'),
          legend: '{{problem}}',
        },
      ],
    },
  ],
};

export const callers: DashboardModel = {
  uid: 'countersign-callers',
  title: 'Countersign: callers',
  description: 'Requests, errors and authorization decisions by caller; TLS of all peers.',
  sections: [traffic, authorization, tokens, tls],
};
