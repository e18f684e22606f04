import type {
  FailedRequest,
  KeyStatus,
  StatusFacts,
  UncertainPayment,
} from '../../src/observability/status/facts.ts';
import { type Status, statusSchema, withFindings } from '../../src/observability/status/schema.ts';

const now = Date.UTC(2026, 10, 22, 14, 3, 7);
const [minute, hour, day] = [60, 3_600, 86_400];

/** ISO 8601. @param seconds before {@link Status.at}; negative for later */
export const ago = (seconds: number): string => new Date(now - seconds * 1000).toISOString();

/** The fingerprint of no key, different for each number. */
export const fingerprint = (number: number): string =>
  Array.from({ length: 8 }, (_, index) => ((number * 2_654_435_761 + index * 40_503_173) >>> 0).toString(16))
    .map((part) => part.padStart(8, '0'))
    .join('');

const requestId = (number: number): string =>
  `${fingerprint(number).slice(0, 8)}-52a6-4d1b-a7d8-${fingerprint(number + 500).slice(0, 12)}`;

export type { Status };

const make =
  <T>(defaults: T) =>
  (fields: Partial<T> = {}): T => ({ ...defaults, ...fields });

type KeyVersion = KeyStatus['versions'][number];

export const keyVersion = (version: number, fields: Partial<KeyVersion> = {}): KeyVersion => ({
  version,
  state: 'in-use',
  createdAt: ago(40 * day),
  fingerprint: null,
  transitKey: null,
  problem: null,
  ...fields,
});

export const keyStatus = make<KeyStatus>({
  environment: 'production',
  login: 'acme',
  kind: 'control_key',
  signingVersion: 3,
  versions: [keyVersion(3)],
  staleSince: null,
  readProblem: null,
  missingSince: null,
});

export const failedRequest = make<FailedRequest>({
  at: ago(95),
  requestId: '6d0b1a9c-52a6-4d1b-a7d8-0c8f9a4b2f11',
  caller: 'billing',
  environment: 'production',
  operation: 'order-status',
  login: 'acme',
  orderId: null,
  statusPath: null,
  status: 403,
  outcome: 'answered',
  cause: 'current-key',
  runbookSection: '#countersigngatewayrejections',
});

export const uncertainPayment = make<UncertainPayment>({
  at: ago(4),
  requestId: '6d0b1a9c-52a6-4d1b-a7d8-0c8f9a4b2f11',
  caller: 'checkout',
  environment: 'production',
  operation: 'transfer',
  login: 'acme',
  orderId: 'order-7',
  statusPath: '/production/gw/api/v4/status/1234',
  outcome: 'unknown',
});

export const environmentStatus = make<Status['environments'][number]>({
  name: 'production',
  gatewayHost: 'gateway.example',
  inFlight: 14,
  maxInFlight: 500,
  waiting: null,
  requestsPerSecond: 86.2,
  rejectedShare: 0.0004,
  failedShare: 0,
  allFail: false,
  failures: [],
  logins: { accepted: 12, rejected: 0, rejectedNames: [] },
  latency: { p50: 0.084, p99: 0.412 },
  clockSkew: 0.2,
});

const sandbox = environmentStatus({
  name: 'sandbox',
  gatewayHost: 'sandbox.gateway.example',
  inFlight: 1,
  maxInFlight: 100,
  requestsPerSecond: 2.35,
  rejectedShare: 0,
  latency: { p50: 0.131, p99: 0.874 },
  clockSkew: 0,
});

/** A version is that of the secret, which has both keys. */
const controlKey = keyStatus({
  signingVersion: 1,
  versions: [keyVersion(1, { createdAt: ago(201 * day) })],
});

const rsaKey = keyStatus({
  kind: 'private_key',
  signingVersion: 1,
  versions: [keyVersion(1, { createdAt: ago(201 * day), fingerprint: fingerprint(7) })],
});

export const certificateStatus = make<Status['certificates'][number]>({
  name: 'listener',
  environment: null,
  from: ago(31 * day),
  until: ago(-59 * day),
  problem: null,
});

export const callerStatus = make<Status['callers'][number]>({
  name: 'billing',
  mode: 'enforce',
  requests: 0,
  denied: 0,
  limited: 0,
  limitedAt: null,
  lastSeenAt: null,
});

export const keySourceStatus = make<Status['keySource']>({
  type: 'directory',
  address: '/etc/countersign/keys',
  state: null,
  deniedLogins: 0,
  deniedLogin: null,
  since: null,
  problem: null,
  loginsNotFound: 0,
  loginNotFound: null,
  cachedKeysExpireAt: null,
});

/** Nothing happened since the start. */
export function emptyStatus(): Status {
  return withFindings({
    at: ago(0),
    runbookUrl: null,
    health: { ready: true, reasons: [], warnings: [] },
    environments: [
      environmentStatus({
        inFlight: 0,
        requestsPerSecond: 0,
        rejectedShare: null,
        failedShare: null,
        logins: { accepted: 0, rejected: 0, rejectedNames: [] },
        latency: null,
        clockSkew: null,
      }),
    ],
    keys: { total: 0, list: [] },
    callers: [],
    failures: [],
    uncertainPayments: [],
    orderMismatches: [],
    certificates: [],
    jwtIssuers: [],
    audit: null,
    claims: null,
    keySource: keySourceStatus(),
    process: { version: '0.2.0', node: '26.12.1', startedAt: ago(4) },
    config: { digest: fingerprint(99), loadedAt: ago(4), problem: null },
  });
}

/** A normal day. @param fields replace those of it */
export function calmStatus(fields: Partial<StatusFacts> = {}): Status {
  return withFindings({
    ...emptyStatus(),
    runbookUrl: 'https://wiki.example/countersign/runbook',
    environments: [environmentStatus(), sandbox],
    keys: {
      total: 4,
      list: [
        controlKey,
        rsaKey,
        keyStatus({
          login: 'acme-travel',
          signingVersion: 2,
          versions: [
            keyVersion(2, { createdAt: ago(5 * hour) }),
            keyVersion(1, { state: 'replaced', createdAt: ago(140 * day) }),
          ],
        }),
        keyStatus({
          environment: 'sandbox',
          login: 'beta',
          signingVersion: 1,
          versions: [keyVersion(1, { createdAt: ago(63 * day) })],
        }),
      ],
    },
    callers: [
      callerStatus({ name: 'billing', requests: 1_204_377, lastSeenAt: ago(0) }),
      callerStatus({ name: 'checkout', requests: 86_120, lastSeenAt: ago(3) }),
      callerStatus({ name: 'reconciliation', requests: 912, lastSeenAt: ago(5 * hour) }),
    ],
    failures: [
      failedRequest({
        at: ago(41 * minute),
        requestId: '0f5a8c1e-93b7-4be2-8a3c-6a8f0d2b7c55',
        operation: 'transfer',
        caller: 'checkout',
        status: 504,
        outcome: 'unknown',
        cause: 'gateway-timeout',
        runbookSection: '#no-complete-gateway-response',
      }),
      failedRequest({
        at: ago(26 * hour),
        requestId: 'c2b7e6f4-1a0d-4c5e-9f38-52d1b4a7e096',
        caller: 'reconciliation',
        login: null,
        status: 400,
        outcome: 'not-sent',
        cause: 'parameter-invalid',
        runbookSection: '#invalid-request',
      }),
    ],
    certificates: [
      certificateStatus(),
      certificateStatus({ name: 'gateway-client', environment: 'production', until: ago(-148 * day) }),
    ],
    keySource: keySourceStatus({
      type: 'vault',
      address: 'vault.example:8200',
      state: 'up',
      since: ago(9 * day),
    }),
    process: { version: '0.2.0', node: '26.12.1', startedAt: ago(9 * day) },
    config: { digest: fingerprint(99), loadedAt: ago(2 * day), problem: null },
    ...fields,
  });
}

/** Vault has a new RSA key, which the gateway does not accept yet. */
export function rotationStatus(): Status {
  const calm = calmStatus();
  const createdAt = ago(6 * minute);
  const newer = { ...controlKey, signingVersion: 2, versions: [keyVersion(2, { createdAt })] };
  const waiting = keyVersion(2, { state: 'waiting', createdAt, fingerprint: fingerprint(8) });
  const list = calm.keys.list.slice(2);
  return calmStatus({
    keys: { total: 4, list: [newer, { ...rsaKey, versions: [waiting, ...rsaKey.versions] }, ...list] },
  });
}

/** Vault is gone, the gateway is slow and rejects, a certificate expires, and the configuration is wrong. */
export function troubleStatus(): Status {
  const calm = calmStatus();
  const [production = environmentStatus(), ...others] = calm.environments;
  const none = { caller: null, environment: null, operation: null, login: null };
  const failures = { detail: null, caller: null, operation: null, login: null, share: 0.182 };
  const causes: Partial<FailedRequest>[] = [
    { status: 503, outcome: 'not-sent', cause: 'overloaded', runbookSection: '#countersignsaturated' },
    {},
    {
      operation: 'transfer',
      caller: 'checkout',
      status: 502,
      outcome: 'unknown',
      cause: 'gateway-reset',
      runbookSection: '#no-complete-gateway-response',
    },
    { cause: 'clock-skew', runbookSection: '#countersignclockskew' },
    {
      ...none,
      status: 401,
      outcome: 'not-sent',
      cause: 'caller-unknown',
      runbookSection: '#countersignauthorizationdenials',
    },
    {
      caller: 'reconciliation',
      status: null,
      outcome: 'unknown',
      cause: 'gateway-reply-invalid',
      runbookSection: null,
    },
  ];
  return calmStatus({
    health: { ready: true, reasons: [], warnings: ['log-lines-dropped'] },
    environments: [
      {
        ...production,
        inFlight: 500,
        failedShare: 0.182,
        failures: [{ ...failures, cause: 'gateway-timeout', count: 941, since: ago(400), lastAt: ago(8) }],
        logins: { accepted: 9, rejected: 3, rejectedNames: [] },
        rejectedShare: 0.634,
        latency: { p50: 4.2, p99: 28.1 },
        clockSkew: -47.3,
      },
      ...others,
    ],
    keys: {
      total: 214,
      list: [
        ...calm.keys.list,
        keyStatus({
          login: 'gamma',
          signingVersion: 5,
          versions: [
            keyVersion(6, {
              state: 'unusable',
              createdAt: ago(70 * minute),
              problem: 'the control key is empty',
            }),
            keyVersion(5, { createdAt: ago(90 * day) }),
          ],
        }),
      ].map((key) => ({
        ...key,
        staleSince: ago(51 * minute),
      })),
    },
    callers: calm.callers.map((one) => (one.name === 'reconciliation' ? { ...one, denied: 37 } : one)),
    failures: Array.from({ length: 100 }, (_, index) =>
      failedRequest({
        ...causes[index % causes.length],
        at: ago(2 + index * 1.7),
        requestId: requestId(index),
      }),
    ),
    uncertainPayments: [4, 12].map((seconds) =>
      uncertainPayment({
        at: ago(seconds),
        requestId: requestId(seconds),
        orderId: `order-${seconds}`,
      }),
    ),
    certificates: [
      certificateStatus({ until: ago(-3.2 * day) }),
      certificateStatus({ name: 'gateway-client', environment: 'production', until: ago(2 * hour) }),
      certificateStatus({ name: 'vault-client' }),
    ],
    keySource: keySourceStatus({
      type: 'vault',
      address: 'vault.example:8200',
      state: 'down',
      since: ago(51 * minute),
      problem: 'Vault cannot be reached (ECONNREFUSED).',
    }),
    config: { ...calm.config, problem: 'configuration reloaded; some fields require a restart: log.level' },
  });
}

/** What may come from outside. */
const outside =
  /^(environment|login|caller|summary|advice|runbookSection|name|gatewayHost|problem|fingerprint|transitKey|requestId|operation|cause|version|node|digest)$/;

/** Every text that may come from outside is this one. */
export function hostileStatus(text: string): Status {
  const trouble = troubleStatus();
  const versions = [
    keyVersion(3, { state: 'unusable', problem: text }),
    keyVersion(2, { fingerprint: text, transitKey: text }),
  ];
  const one = {
    ...trouble,
    well: false,
    health: { ready: false, reasons: ['draining'], warnings: ['log-stalled'] },
    environments: [environmentStatus()],
    keys: { total: 1, list: [keyStatus({ signingVersion: null, versions })] },
    callers: [callerStatus({ denied: 1 })],
    failures: [failedRequest()],
    certificates: [certificateStatus({ environment: text })],
  };
  const hostile: unknown = JSON.parse(JSON.stringify(one), (name, value: unknown) =>
    outside.test(name) && typeof value === 'string' ? text : value,
  );
  return statusSchema.parse(hostile);
}

const pad = (index: number): string => String(index).padStart(2, '0');

/**
 * As much as an instance can have: 30 environments, 200 keys of 70 merchants, 100 failed requests. Little of it is
 * wrong, and that is neither first nor last in its list.
 */
export function crowdedStatus(): Status {
  const trouble = troubleStatus();
  const names = Array.from({ length: 30 }, (_, index) => `region-${pad(index)}`);
  return calmStatus({
    environments: names.map((name, index) =>
      environmentStatus({
        name,
        gatewayHost: `${name}.gateway.example`,
        ...(index === 17 && { inFlight: 450 }),
        ...(index === 21 && { clockSkew: -47.3 }),
      }),
    ),
    keys: {
      total: 200,
      list: Array.from({ length: 200 }, (_, index) => {
        const isRsa = index % 4 === 3;
        const isWaiting = [55, 111, 155].includes(index);
        const print = isRsa ? fingerprint(index) : null;
        return keyStatus({
          environment: names[index % names.length] ?? '',
          // Not in their order: the list begins with the last used.
          login: `merchant-${pad((index * 37) % 70)}`,
          kind: isRsa ? 'private_key' : 'control_key',
          signingVersion: 12,
          versions: [
            ...(isWaiting ? [keyVersion(13, { state: 'waiting', createdAt: ago(6 * minute) })] : []),
            keyVersion(12, { fingerprint: print, ...(index === 90 && { state: 'rejected' }) }),
            ...(index % 5 === 0 ? [keyVersion(11, { state: 'replaced', createdAt: ago(140 * day) })] : []),
          ],
        });
      }),
    },
    failures: trouble.failures,
  });
}
