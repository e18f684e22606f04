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
      purpose: 'Incident: 401 or 403. Is it a key, a rotation or a clock?',
      description:
        'Requests rejected by the gateway with 401 or 403. other-key: accepted with another version, a rotation is in progress. clock-skew: clocks differ. current-key: neither; the key is not registered or a permission is missing.',
      unit: 'reqps',
      runbook: 'CountersignGatewayRejections',
      queries: { '{{cause}}': perSecond('gateway_rejections_total', onRoute, 'cause') },
    },
    {
      title: 'Rejected ratio',
      purpose: 'Incident: which environment and operation does the gateway reject?',
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
      purpose: 'Incident: the gateway rejects timestamps.',
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
  ],
};

const rotation: Section = {
  title: 'Rotation',
  panels: [
    {
      title: 'Rotation by instance',
      purpose: 'Decision: is the rotation over everywhere, so that the old key may go?',
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
      purpose: 'Decision: which key is due for rotation?',
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
      purpose: 'Incident: a login has no usable key, or a rotation cannot begin.',
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
      purpose: 'Incident: which instances do not reach the key source?',
      description: '1 if the key source responds to the instance, also if it denies reading keys.',
      unit: 'short',
      redBelow: 1,
      runbook: 'CountersignKeySourceDown',
      queries: { '{{instance}}': min('key_source_up', inRelease, 'instance') },
    },
    {
      title: 'Logins not found',
      purpose: 'Incident: logins vanished from the key source, which requests do not show yet.',
      description:
        'Logins whose cached keys are used although the key source does not know the login: it was moved, re-created or restored.',
      unit: 'short',
      redFrom: 1,
      runbook: 'CountersignLoginsNotFound',
      queries: { '{{instance}}': max('key_logins_not_found', inRelease, 'instance') },
    },
    {
      title: 'Denied logins',
      purpose: 'Incident: the key source denies keys, as after a policy was lost.',
      description: 'Logins in use whose keys the key source denies reading, as after a policy was lost.',
      unit: 'short',
      redFrom: 1,
      runbook: 'CountersignKeySourceDown',
      queries: { '{{instance}}': max('key_source_denied_logins', inRelease, 'instance') },
    },
    {
      title: 'Time left for cached keys',
      purpose: 'Incident: how long is there to repair the key source before payments fail?',
      description:
        'Time until the first cached keys that cannot be read again are no longer used. Empty while all can be read.',
      unit: 's',
      redBelow: 21_600,
      runbook: 'CountersignCachedKeysExpiring',
      queries: { '{{instance}}': min('cached_keys_remaining_seconds', inRelease, 'instance') },
    },
    {
      title: 'Vault token',
      purpose: 'Incident: the Vault token is not renewed.',
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
      title: 'Key fetch duration',
      purpose: 'Incident: slow, since keys are read from a slow source.',
      description: 'Duration of a key source read, successful or not.',
      unit: 's',
      redFrom: 5,
      runbook: 'CountersignKeySourceDown',
      queries: medianAndP99('key_fetch_duration_seconds', inRelease, 'source'),
    },
    {
      title: 'Signatures in Vault',
      purpose: 'Incident: slow, since Vault signs slowly.',
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
      purpose: 'Incident: Vault does not sign.',
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
      purpose: 'Incident: keys cannot be read, or a login to the key source fails.',
      description:
        'Failed key reads, and failed logins to the key source (environment=none). The log says why.',
      unit: 'reqps',
      runbook: 'CountersignKeySourceDown',
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
