import { beforeEach, describe, expect, it } from '@jest/globals';
import { configSchema } from '../../../src/config/schema.ts';
import { SourceUnavailable } from '../../../src/keys/errors.ts';
import { parseKeys } from '../../../src/keys/key.ts';
import type { LoginRef } from '../../../src/keys/login-ref.ts';
import type { KeyReader } from '../../../src/keys/reader.ts';
import type { KeyRing } from '../../../src/keys/ring.ts';
import type { CertificateInUse } from '../../../src/observability/prometheus.ts';
import { createStatusRecorder, type StatusRecorder } from '../../../src/observability/status/recorder.ts';
import { statusSchema } from '../../../src/observability/status/schema.ts';
import { ConcurrencyLimiter } from '../../../src/proxy/limits.ts';
import { createStatus, type StatusSources } from '../../../src/service/status.ts';
import { fixedKeys } from '../../support/fixed-keys.ts';

const noon = Date.UTC(2026, 0, 1, 12);
const acme = { environment: 'sandbox', login: 'acme' };
const config = configSchema.parse({
  admin: { runbookUrl: 'https://wiki.example/runbook' },
  environments: {
    sandbox: { baseUrl: 'https://sandbox.gateway.example', product: 'gw', maxInFlight: 7 },
    production: { baseUrl: 'https://gateway.example:8443/base', product: 'gw' },
  },
  keys: { source: 'directory', directory: '/keys' },
  callers: [{ name: 'billing', mode: 'dry-run', credentials: [{ anonymous: true }] }],
});

/** Milliseconds since noon, which is also the monotonic time. */
let now: number;
/** Milliseconds by which somebody has set the wall clock. */
let set: number;
let recorder: StatusRecorder;
let ring: KeyRing;
let sources: StatusSources;
let reader: KeyReader;
let isDenied: boolean;
let certificates: readonly CertificateInUse[];
beforeEach(() => {
  [now, ring, certificates, isDenied] = [0, parseKeys({ control_key: 'a' }, { version: 1 }), [], false];
  set = 0;
  const clock = (): number => noon + now + set;
  const monotonic = (): number => now;
  const clocks = { clock, monotonic };
  recorder = createStatusRecorder({ config, digest: 'abc' }, clocks);
  const keys = fixedKeys(() => {
    if (isDenied) throw new SourceUnavailable(acme, new Error('denied'), 'denied');
    return ring;
  }, clocks);
  ({ reader } = keys);
  sources = {
    ...clocks,
    recorder,
    limiter: new ConcurrencyLimiter({ monotonic }),
    redactor: { text: (text) => text.replaceAll('MARK', '***') },
    certificates: { inUse: () => certificates },
    readiness: () => ({ ready: false, reasons: ['draining'], warnings: ['log-stalled'] }),
    startedAt: 0,
    config,
    keys,
    jwtIssuers: { list: [] },
  };
});

const read = (login: LoginRef): Promise<void> => reader.read(login, 'request');

describe('the status', () => {
  it('of an instance without requests satisfies its schema', async () => {
    now = 61_250;
    const status = await createStatus(sources)();
    expect(statusSchema.parse(status)).toEqual(status);
    expect(status).toMatchObject({
      at: '2026-01-01T12:01:01.250Z',
      runbookUrl: 'https://wiki.example/runbook',
      health: { ready: false, reasons: ['draining'], warnings: ['log-stalled'] },
      environments: [
        { name: 'sandbox', gatewayHost: 'sandbox.gateway.example', inFlight: 0, maxInFlight: 7 },
        { name: 'production', gatewayHost: 'gateway.example:8443', latency: null, rejectedShare: null },
      ],
      keys: { total: 0, list: [] },
      callers: [{ name: 'billing', mode: 'dry-run', requests: 0, limitedAt: null, lastSeenAt: null }],
      keySource: { type: 'directory', address: '/keys', state: null, since: null, problem: null },
      process: { startedAt: '2026-01-01T12:00:00.000Z' },
      config: { digest: 'abc', loadedAt: '2026-01-01T12:00:00.000Z', problem: null },
    });
  });

  it.each([-7_200_000, 7_200_000])('measures times alike after the clock was set by %d ms', async (by) => {
    const current = createStatus(sources);
    const finished = { startedAt: 0, environment: 'sandbox', operation: 'transfer', caller: 'billing' };
    const sent = { attempts: 1, durations: {}, readOnly: false };
    const result = { ...finished, ...sent, outcome: 'answered', status: 200, gatewayStatus: 200 } as const;
    recorder.requestFinished({ ...result, id: 'a', orderMismatch: 'amount' });
    recorder.requestFinished({ ...result, id: 'b', status: 500, gatewayStatus: 500 });
    recorder.requestFinished({ ...result, id: 'c', reason: 'caller-limit', outcome: 'not-sent' });
    recorder.keySourceUp(false, 'sealed');
    recorder.keySourceUp(true);
    const found = async (at: number) => {
      now = at;
      const { findings } = statusSchema.parse(await current());
      return findings.map(({ code, summary, advice }) => `${code}: ${summary}. ${advice}`);
    };
    const all = async () => {
      const texts: string[][] = [];
      for (const later of [59_000, 60_000, 3_600_001]) texts.push(await found(later));
      return texts;
    };
    const before = await all();
    expect(before.map((texts) => texts.length)).toEqual([7, 5, 3]);
    set = by;
    expect(await all()).toEqual(before);
  });

  it('says why keys could not be read again while they are stale', async () => {
    await read(acme);
    recorder.keyProblem('denied', acme);
    const row = async () => (await createStatus(sources)()).keys.list[0];
    expect(await row()).toMatchObject({ staleSince: null, readProblem: null });
    now = 60_000;
    isDenied = true;
    await expect(read(acme)).rejects.toMatchObject({ reason: 'key-source-unavailable' });
    expect(await row()).toMatchObject({ staleSince: '2026-01-01T12:01:00.000Z', readProblem: 'denied' });
  });

  it('says since when the newest version lacks a key of which an older one is in use', async () => {
    ring = ring.map((entry) => ({ ...entry, supersededAt: new Date(noon) }));
    await read(acme);
    const { keys } = await createStatus(sources)();
    expect(keys).toMatchObject({ total: 1, list: [{ missingSince: '2026-01-01T12:00:00.000Z' }] });
  });

  it('has 200 rows at most', async () => {
    for (let count = 0; count < 201; count += 1)
      await read({ environment: 'sandbox', login: `login-${count}` });
    const { total, list } = (await createStatus(sources)()).keys;
    expect([total, list.length, list[0]?.login]).toEqual([201, 200, 'login-200']);
  });

  it('has no time beyond the years 0 and 9999, whatever a server, a file or a certificate says', async () => {
    certificates = [
      { name: 'gateway-ca', environment: 'sandbox', from: -1e15, until: 1e18, problem: 'ca.crt is missing' },
      { name: 'vault-ca', from: Number.NaN, until: Number.NaN },
    ];
    ring = parseKeys({ control_key: 'a' }, { version: 1, createdAt: new Date(8e15) });
    await read(acme);
    const [first, last] = ['0000-01-01T00:00:00.000Z', '9999-12-31T23:59:59.999Z'];
    const status = statusSchema.parse(await createStatus(sources)());
    expect(status.certificates).toEqual([
      { ...certificates[0], from: first, until: last },
      { name: 'vault-ca', environment: null, from: first, until: first, problem: null },
    ]);
    expect(status.keys.list[0]?.versions[0]?.createdAt).toBe(last);
  });

  it('has logins and problems only as they may be written', async () => {
    ring = [{ kind: 'control_key', version: 1, problem: 'the key of MARK is empty' }];
    await read({ environment: 'sandbox', login: 'MARK-1' });
    const issuer = { name: 'corp', keys: { available: false, problem: 'no key set of MARK' } };
    const status = await createStatus({ ...sources, jwtIssuers: { list: [issuer] } })();
    expect(status.keys.list).toMatchObject([
      { login: '***-1', versions: [{ problem: 'the key of *** is empty' }] },
    ]);
    expect(status.jwtIssuers).toEqual([{ name: 'corp', available: false, problem: 'no key set of ***' }]);
  });
});
