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
      purpose: 'Incident: which caller stopped, or sends too much?',
      description: 'Requests per second. caller=none means not authenticated.',
      unit: 'reqps',
      queries: { '{{caller}}': perSecond('requests_total', onRoute, 'caller') },
    },
    {
      title: 'Failures by caller',
      purpose: 'Incident: which callers have to be told?',
      description: 'Ratio of 5xx responses by caller.',
      unit: 'percentunit',
      redFrom: 0.01,
      runbook: 'CountersignErrorBudgetBurn',
      queries: { '{{caller}}': share('requests_total', 'status=~"5.."', onRoute, 'caller') },
    },
    {
      title: 'Client errors (4xx)',
      purpose: 'Decision: which caller has to change what?',
      description:
        'Requests that Countersign rejected with a 4xx status. The reason says what the client has to change.',
      unit: 'reqps',
      queries: {
        '{{caller}}: {{reason}}': perSecond(
          'requests_total',
          `${anyRoute}, status=~"4..", reason!="none"`,
          'caller, reason',
        ),
      },
    },
  ],
};

const authorization: Section = {
  title: 'Authorization',
  panels: [
    {
      title: 'Would be denied',
      purpose: 'Decision: may the caller go from dry-run to enforce?',
      description:
        'Requests of callers in dry-run mode that enforce mode would deny. After a week at 0, switch to enforce.',
      unit: 'short',
      queries: {
        '{{caller}}': aggregate(
          'sum',
          'caller',
          `increase(countersign_authorization_decisions_total{${inRelease}, decision="would-deny"}[$__rate_interval])`,
        ),
      },
    },
    {
      title: 'Denied requests',
      purpose: 'Incident: a caller lost its access, or somebody tries credentials.',
      description:
        'not-allowed: an authenticated caller without a grant. caller-unknown: unknown or invalid credentials.',
      unit: 'reqps',
      runbook: 'CountersignAuthorizationDenials',
      queries: {
        '{{caller}}: {{reason}}': perSecond(
          'requests_total',
          `${anyRoute}, reason=~"not-allowed|caller-unknown"`,
          'caller, reason',
        ),
      },
    },
  ],
};

const tokens: Section = {
  title: 'JSON Web Tokens',
  panels: [
    {
      title: 'Tokens by result',
      purpose: 'Incident: tokens of an issuer are rejected.',
      description:
        'Tokens per second by issuer and result. issuer=none: no configured issuer made the token.',
      unit: 'reqps',
      runbook: 'CountersignAuthorizationDenials',
      queries: {
        // Most results never occur.
        '{{issuer}}: {{result}}': `${perSecond('jwt_verifications_total', inRelease, 'issuer, result')} > 0`,
      },
    },
    {
      title: "Age of the issuers' keys",
      purpose: 'Incident: the keys of an issuer cannot be fetched.',
      description:
        'Time since the public keys of an issuer were last fetched, on the instance where it is longest.',
      unit: 's',
      redFrom: 3600,
      runbook: 'CountersignJwtKeysStale',
      queries: {
        '{{issuer}}': aggregate(
          'max',
          'issuer',
          `time() - countersign_jwt_keys_fetched_timestamp_seconds{${inRelease}}`,
        ),
      },
    },
  ],
};

const inAnyEnvironment = `${inRelease}, environment=~"$environment|none"`;

const tls: Section = {
  title: 'TLS',
  panels: [
    {
      title: 'TLS connections',
      purpose: 'Decision: may minVersion be 1.3?',
      description:
        'TLS connections since the start by our end (role), negotiated version and cipher suite, also those with servers. minVersion 1.3 would reject those with TLS 1.2: the log names their clients. Empty without TLS.',
      unit: 'short',
      queries: {
        // A rate would not show the first connection of a combination, which may be the only one for days.
        '{{role}} {{environment}} {{version}} {{cipher}}': aggregate(
          'sum',
          'role, environment, version, cipher',
          `max_over_time(countersign_tls_connections_total{${inAnyEnvironment}}[$__range])`,
        ),
      },
    },
    {
      title: 'Failed TLS handshakes',
      purpose: 'Incident: a client cannot connect since it or a certificate changed.',
      description:
        'TLS handshakes per second that failed because of the version, the cipher suites, a certificate, or another mistake of the peer. The log names the peer and the cause.',
      unit: 'ops',
      queries: { '{{problem}}': perSecond('tls_handshake_failures_total', inAnyEnvironment, 'problem') },
    },
  ],
};

export const callers: DashboardModel = {
  uid: 'countersign-callers',
  title: 'Countersign: callers',
  description: 'Requests, errors and authorization decisions by caller; TLS of all peers.',
  sections: [traffic, authorization, tokens, tls],
};
