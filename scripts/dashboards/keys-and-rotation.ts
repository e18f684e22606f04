import {
  aggregate,
  type DashboardModel,
  inEnvironment,
  inRelease,
  max,
  medianAndP99,
  min,
  onRoute,
  perSecond,
  type Section,
  share,
} from './model.ts';

const ofKey = 'environment, login, kind';
/** Of a metric with a version of a key. */
const onInstances = (metric: string): string => max(metric, inEnvironment, `${ofKey}, instance`);

const rejections: Section = {
  title: 'Gateway rejections',
  panels: [
    {
      title: 'Gateway rejections by cause',
      description:
        'Requests rejected by the gateway with 401 or 403. other-key: accepted with another version, a rotation is in progress. clock-skew: clocks differ. current-key: neither; the key is not registered or a permission is missing.',
      unit: 'reqps',
      runbook: 'CountersignGatewayRejections',
      queries: { '{{cause}}': perSecond('gateway_rejections_total', onRoute, 'cause') },
    },
    {
      title: 'Rejected ratio',
      description: 'Ratio of gateway responses with status 401 or 403.',
      unit: 'percentunit',
      redFrom: 0.02,
      runbook: 'CountersignGatewayRejections',
      queries: {
        '{{environment}} {{operation}}': share(
          'gateway_responses_total',
          'status=~"401|403"',
          onRoute,
          'environment, operation',
        ),
      },
    },
    {
      title: 'Clock skew',
      description:
        'Gateway clock minus local clock, from the Date header, which has a resolution of one second.',
      unit: 's',
      redBelow: -30,
      redFrom: 30,
      runbook: 'CountersignClockSkew',
      queries: {
        '{{environment}} {{instance}}': max(
          'gateway_clock_skew_seconds',
          inEnvironment,
          'environment, instance',
        ),
      },
    },
    {
      title: 'Fallbacks',
      description:
        'How often the gateway rejected the current key and accepted a newer or an older one, which signs from then on.',
      unit: 'reqps',
      runbook: 'CountersignRotationStuck',
      queries: {
        '{{environment}} {{login}} {{kind}}: {{to}}': perSecond(
          'key_fallbacks_total',
          inEnvironment,
          `${ofKey}, to`,
        ),
      },
    },
  ],
};

const rotation: Section = {
  title: 'Rotation',
  panels: [
    {
      title: 'Rotation by instance',
      description:
        'Is the rotation over everywhere? It is where every row is 0 behind: the instance signs with the newest version that any instance has read. An instance is behind while the newest version waits for the gateway there, or while the login had no request there for 10 minutes. Accepted: the version that the gateway accepted last from the instance; empty since its start until then.',
      kind: 'table',
      unit: 'short',
      redFrom: 1,
      runbook: 'CountersignRotationStuck',
      queries: {
        behind: `max by (namespace, release, ${ofKey}) (countersign_key_version{${inEnvironment}}) - on (namespace, release, ${ofKey}) group_right () ${onInstances('key_signing_version')}`,
        read: onInstances('key_version'),
        signs: onInstances('key_signing_version'),
        accepted: onInstances('key_accepted_version'),
      },
    },
    {
      title: 'Key age',
      description: 'Time since the latest version was created.',
      unit: 's',
      redFrom: 365 * 86_400,
      runbook: 'CountersignKeyRotationDue',
      queries: {
        '{{environment}} {{login}} {{kind}}': `time() - ${max('key_created_timestamp_seconds', inEnvironment, ofKey)}`,
      },
    },
    {
      title: 'Unusable key versions',
      description:
        'Key versions that cannot be parsed, are too weak, or are missing in the newest version. The log says why.',
      unit: 'short',
      redFrom: 1,
      runbook: 'CountersignKeyUnusable',
      queries: {
        '{{environment}} {{login}} {{kind}}': max('key_unusable_versions', inEnvironment, ofKey),
      },
    },
  ],
};

const source: Section = {
  title: 'Key source',
  panels: [
    {
      title: 'Key source up',
      description: '1 if the key source responds to the instance, also if it denies reading keys.',
      unit: 'short',
      redBelow: 1,
      runbook: 'CountersignKeySourceDown',
      queries: { '{{instance}}': min('key_source_up', inRelease, 'instance') },
    },
    {
      title: 'Logins not found',
      description:
        'Logins whose cached keys are used although the key source does not know the login: it was moved, re-created or restored.',
      unit: 'short',
      redFrom: 1,
      runbook: 'CountersignLoginsNotFound',
      queries: { '{{instance}}': max('key_logins_not_found', inRelease, 'instance') },
    },
    {
      title: 'Denied logins',
      description: 'Logins in use whose keys the key source denies reading, as after a policy was lost.',
      unit: 'short',
      redFrom: 1,
      runbook: 'CountersignKeysDenied',
      queries: { '{{instance}}': max('key_source_denied_logins', inRelease, 'instance') },
    },
    {
      title: 'Time left for cached keys',
      description:
        'Time until the first cached keys that cannot be read again are no longer used. Empty while all can be read.',
      unit: 's',
      redBelow: 21_600,
      runbook: 'CountersignCachedKeysExpiring',
      queries: { '{{instance}}': min('cached_keys_remaining_seconds', inRelease, 'instance') },
    },
    {
      title: 'Vault token',
      description:
        'Remaining share of the Vault token lease. It falls to a third and rises again when the token is renewed. Empty for keys in a directory and for a token that does not expire.',
      unit: 'percentunit',
      redBelow: 0.2,
      runbook: 'CountersignVaultTokenExpiring',
      queries: {
        '{{instance}}': aggregate(
          'min',
          'instance',
          `(countersign_vault_token_expiry_timestamp_seconds{${inRelease}} - time()) / countersign_vault_token_lease_seconds{${inRelease}}`,
        ),
      },
    },
    {
      title: 'Key lookups by result',
      description:
        'fresh: from the cache. stale: from the cache while it is refreshed or the source fails. fetched: read from the source. missing: no such key. failed: not available.',
      unit: 'reqps',
      runbook: 'CountersignKeySourceDown',
      queries: { '{{result}}': perSecond('key_cache_lookups_total', inEnvironment, 'result') },
    },
    {
      title: 'Key fetch duration',
      description: 'Duration of a key source read, successful or not.',
      unit: 's',
      redFrom: 5,
      runbook: 'CountersignKeySourceDown',
      queries: medianAndP99('key_fetch_duration_seconds', inRelease, 'source'),
    },
    {
      title: 'Signatures in Vault',
      description:
        'Duration of a signature with a key that does not leave Vault (Transit). Empty if there are no such keys.',
      unit: 's',
      redFrom: 1,
      runbook: 'CountersignSigningUnavailable',
      queries: medianAndP99(
        'transit_signature_duration_seconds',
        `${inEnvironment}, result="ok"`,
        'environment',
      ),
    },
    {
      title: 'Failed signatures in Vault',
      description:
        'unavailable: Vault is away, and nothing was sent. denied: its policy. rejected, invalid: the key of one login.',
      unit: 'reqps',
      runbook: 'CountersignSigningUnavailable',
      queries: {
        '{{result}}': perSecond(
          'transit_signature_duration_seconds_count',
          `${inEnvironment}, result!="ok"`,
          'environment, result',
        ),
      },
    },
    {
      title: 'Key problems',
      description:
        'Failed key reads, and failed logins to the key source (environment=none). The log says why.',
      unit: 'reqps',
      runbook: 'CountersignKeyProblem',
      queries: {
        '{{environment}}': perSecond(
          'key_problems_total',
          `${inRelease}, environment=~"$environment|none"`,
          'environment',
        ),
      },
    },
  ],
};

export const keysAndRotation: DashboardModel = {
  uid: 'countersign-keys',
  title: 'Countersign: keys and rotation',
  description:
    'Which keys are used for signing, their age, whether the gateway accepts them, and the state of the key source.',
  sections: [rejections, rotation, source],
};
