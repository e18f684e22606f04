import {
  aggregate,
  type DashboardModel,
  inEnvironment,
  inRelease,
  medianAndWorst,
  onRoute,
  perSecond,
  type Section,
  share,
} from './model.ts';

const rejections: Section = {
  title: 'Rejections of the gateway',
  panels: [
    {
      title: 'Why the gateway rejected',
      description:
        'Exchanges with a 403 of the gateway. other-key: accepted with another version, a rotation is under way. clock-skew: our clocks differ. current-key: neither; the key is not registered or the right is missing.',
      kind: 'timeseries',
      unit: 'reqps',
      runbook: 'CountersignGatewayRejections',
      queries: [{ expr: perSecond('gateway_rejections_total', onRoute, 'cause'), legend: '{{cause}}' }],
    },
    {
      title: 'Share of 403',
      description: 'Share of the replies of the gateway that are 403.',
      kind: 'timeseries',
      unit: 'percentunit',
      redFrom: 0.02,
      runbook: 'CountersignGatewayRejections',
      queries: [
        {
          expr: share('gateway_responses_total', 'status="403"', onRoute, 'environment, operation'),
          legend: '{{environment}} {{operation}}',
        },
      ],
    },
    {
      title: 'Clock skew',
      description:
        'Clock of the gateway minus our own, from its Date header, which has a resolution of one second.',
      kind: 'timeseries',
      unit: 's',
      redBelow: -30,
      redFrom: 30,
      runbook: 'CountersignClockSkew',
      queries: [
        {
          expr: aggregate(
            'max',
            'environment, instance',
            `countersign_gateway_clock_skew_seconds{${inEnvironment}}`,
          ),
          legend: '{{environment}} {{instance}}',
        },
      ],
    },
    {
      title: 'Fallbacks',
      description: 'Exchanges that were refused with one version and accepted with a newer or an older one.',
      kind: 'timeseries',
      unit: 'reqps',
      runbook: 'CountersignRotationStuck',
      queries: [
        {
          expr: perSecond('key_fallbacks_total', inEnvironment, 'environment, login, kind, to'),
          legend: '{{environment}} {{login}} {{kind}}: {{to}}',
        },
      ],
    },
  ],
};

const rotation: Section = {
  title: 'Rotation',
  panels: [
    {
      title: 'Newest and signing version',
      description:
        'The newest version that any instance has read, and the oldest one that an instance signs with. They differ while the gateway does not know the newest, or while an instance lags behind.',
      kind: 'timeseries',
      unit: 'short',
      runbook: 'CountersignRotationStuck',
      queries: [
        {
          expr: aggregate('max', 'environment, login, kind', `countersign_key_version{${inEnvironment}}`),
          legend: '{{environment}} {{login}} {{kind}}: newest',
        },
        {
          expr: aggregate(
            'min',
            'environment, login, kind',
            `countersign_key_signing_version{${inEnvironment}}`,
          ),
          legend: '{{environment}} {{login}} {{kind}}: signs',
        },
      ],
    },
    {
      title: 'Canaries',
      description:
        'Read-only queries sent ahead of payments while the ring holds a newer key, by result. switched: the gateway rejected one key and accepted another. Only with keys.rotation.canary.',
      kind: 'timeseries',
      unit: 'reqps',
      runbook: 'CountersignRotationStuck',
      queries: [
        {
          expr: perSecond('key_canaries_total', inEnvironment, 'environment, result'),
          legend: '{{environment}}: {{result}}',
        },
      ],
    },
    {
      title: 'Age of keys',
      description: 'Time since the newest version was made.',
      kind: 'timeseries',
      unit: 's',
      redFrom: 365 * 86_400,
      runbook: 'CountersignKeyRotationDue',
      queries: [
        {
          expr: `time() - ${aggregate('max', 'environment, login, kind', `countersign_key_created_timestamp_seconds{${inEnvironment}}`)}`,
          legend: '{{environment}} {{login}} {{kind}}',
        },
      ],
    },
    {
      title: 'Versions that cannot be used',
      description: 'Versions that cannot be parsed or are too weak; the log says why.',
      kind: 'timeseries',
      unit: 'short',
      redFrom: 1,
      runbook: 'CountersignKeyUnusable',
      queries: [
        {
          expr: aggregate(
            'max',
            'environment, login, kind',
            `countersign_key_unusable_versions{${inEnvironment}}`,
          ),
          legend: '{{environment}} {{login}} {{kind}}',
        },
      ],
    },
  ],
};

const source: Section = {
  title: 'Where keys come from',
  panels: [
    {
      title: 'Key source',
      description: '1 where the key source answered when an instance last asked it.',
      kind: 'timeseries',
      unit: 'short',
      redBelow: 1,
      runbook: 'CountersignKeySourceDown',
      queries: [
        {
          expr: aggregate('min', 'instance', `countersign_key_source_up{${inRelease}}`),
          legend: '{{instance}}',
        },
      ],
    },
    {
      title: 'Vault token',
      description:
        'Share of its lease that the Vault token has left. It falls to a third and jumps back when renewed. Empty for keys in a directory and for a token that never expires.',
      kind: 'timeseries',
      unit: 'percentunit',
      redBelow: 0.2,
      runbook: 'CountersignVaultTokenExpiring',
      queries: [
        {
          expr: aggregate(
            'min',
            'instance',
            `(countersign_vault_token_expiry_timestamp_seconds{${inRelease}} - time()) / countersign_vault_token_lease_seconds{${inRelease}}`,
          ),
          legend: '{{instance}}',
        },
      ],
    },
    {
      title: 'Keys by how they were had',
      description:
        'fresh: from the cache. stale: from the cache while it is refreshed or the source fails. fetched: read now. missing: there is none. failed: none to be had.',
      kind: 'timeseries',
      unit: 'reqps',
      runbook: 'CountersignKeySourceDown',
      queries: [
        { expr: perSecond('key_cache_lookups_total', inEnvironment, 'result'), legend: '{{result}}' },
      ],
    },
    {
      title: 'Key fetch duration',
      description: 'One read of the key source, successful or not.',
      kind: 'timeseries',
      unit: 's',
      redFrom: 5,
      runbook: 'CountersignKeySourceDown',
      queries: medianAndWorst('key_fetch_duration_seconds', inRelease, 'source'),
    },
    {
      title: 'Key problems',
      description:
        'Keys that could not be read, and logins to the key source that failed (environment none); the log says why.',
      kind: 'timeseries',
      unit: 'reqps',
      runbook: 'CountersignKeyProblem',
      queries: [
        {
          expr: perSecond(
            'key_problems_total',
            `${inRelease}, environment=~"$environment|none"`,
            'environment',
          ),
          legend: '{{environment}}',
        },
      ],
    },
  ],
};

export const keysAndRotation: DashboardModel = {
  uid: 'countersign-keys',
  title: 'Countersign: keys and rotation',
  description: 'Which keys sign, how old they are, whether the gateway accepts them, and how they are had.',
  sections: [rejections, rotation, source],
};
