import { withFindings } from '../../src/observability/status/findings.ts';
import type { Status } from '../../src/observability/status/schema.ts';

const fingerprint = (digit: string): string => digit.repeat(64);

/** A status with something in each section, in the middle of a rotation. */
export const sampleStatus: Status = withFindings({
  at: '2026-11-22T08:00:00.000Z',
  runbookUrl: 'https://wiki.example/runbook',
  health: { ready: true, reasons: [], warnings: ['log-lines-dropped'] },
  environments: [
    {
      name: 'sandbox',
      gatewayHost: 'sandbox.gateway.example',
      inFlight: 3,
      maxInFlight: 64,
      requestsPerSecond: 12.34,
      rejectedShare: 0.025,
      failedShare: 0.04,
      failures: [
        {
          cause: 'gateway-timeout',
          detail: null,
          count: 30,
          share: 0.04,
          lastAt: '2026-11-22T07:59:52.000Z',
        },
      ],
      logins: { accepted: 2, rejected: 1 },
      latency: { p50: 0.0042, p99: 1.25 },
      clockSkew: -1.5,
    },
    {
      name: 'production',
      gatewayHost: 'gateway.example',
      inFlight: 0,
      maxInFlight: 64,
      requestsPerSecond: 0,
      rejectedShare: null,
      failedShare: null,
      failures: [],
      logins: { accepted: 0, rejected: 0 },
      latency: null,
      clockSkew: null,
    },
  ],
  keys: {
    total: 3,
    list: [
      {
        environment: 'sandbox',
        login: 'acme',
        kind: 'private_key',
        newestVersion: 8,
        signingVersion: 7,
        versions: [
          {
            version: 8,
            state: 'waiting',
            createdAt: '2026-11-22T07:55:00.000Z',
            fingerprint: fingerprint('8'),
            transitKey: null,
            problem: null,
          },
          {
            version: 7,
            state: 'in-use',
            createdAt: '2026-10-22T08:00:00.000Z',
            fingerprint: fingerprint('7'),
            transitKey: null,
            problem: null,
          },
        ],
        readAt: '2026-11-22T07:59:30.000Z',
        staleSince: null,
        readProblem: null,
        missingSince: null,
        nextRefreshAt: '2026-11-22T08:00:25.000Z',
      },
      {
        environment: 'sandbox',
        login: 'beta',
        kind: 'control_key',
        newestVersion: 2,
        signingVersion: null,
        versions: [
          {
            version: 2,
            state: 'unusable',
            createdAt: null,
            fingerprint: null,
            transitKey: null,
            problem: 'the control key is empty',
          },
        ],
        readAt: '2026-11-22T07:00:00.000Z',
        staleSince: '2026-11-22T07:01:00.000Z',
        readProblem: 'key read failed: Vault denied permission (403)',
        missingSince: null,
        nextRefreshAt: null,
      },
    ],
  },
  callers: [
    { name: 'billing', requests: 1234, denied: 5, mode: 'enforce', lastSeenAt: '2026-11-22T07:59:57.000Z' },
    { name: 'reports', requests: 0, denied: 0, mode: 'enforce', lastSeenAt: null },
  ],
  failures: Array.from({ length: 12 }, (_, index) => ({
    at: new Date(Date.parse('2026-11-22T07:59:00.000Z') - index * 60_000).toISOString(),
    requestId: `request-${index}`,
    caller: index === 11 ? null : 'billing',
    environment: index === 11 ? null : 'sandbox',
    operation: index >= 10 ? null : 'transfer',
    login: 'acme',
    status: index === 1 ? null : 403,
    outcome: 'answered',
    cause: 'current-key',
    runbookSection: '#countersign403',
  })),
  uncertainPayments: [
    {
      at: '2026-11-22T07:58:00.000Z',
      requestId: '0f5a8c1e-93b7-4be2-8a3c-6a8f0d2b7c55',
      environment: 'sandbox',
      outcome: 'unknown',
    },
  ],
  certificates: [
    {
      name: 'proxy',
      environment: null,
      from: '2026-01-01T00:00:00.000Z',
      until: '2026-11-29T08:00:00.000Z',
    },
  ],
  jwtIssuers: [{ name: 'corp', available: true, problem: 'connection refused: ECONNREFUSED' }],
  audit: { up: true, problem: null },
  keySource: {
    type: 'vault',
    state: 'down',
    deniedLogins: 0,
    since: '2026-11-22T07:58:00.000Z',
    problem: 'connection refused',
    tokenExpiresAt: '2026-11-22T08:30:00.000Z',
    loginsNotFound: 0,
  },
  process: { version: '0.1.0', node: '26.10.0', startedAt: '2026-11-21T08:00:00.000Z', uptime: 86_400 },
  config: {
    digest: 'c'.repeat(64),
    loadedAt: '2026-11-22T07:00:00.000Z',
    reloadFailed: true,
  },
});
