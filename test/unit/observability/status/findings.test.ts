import { describe, expect, it } from '@jest/globals';
import { computeReadiness } from '../../../../src/observability/readiness.ts';
import type { StatusFacts } from '../../../../src/observability/status/facts.ts';
import type { Status } from '../../../../src/observability/status/schema.ts';
import {
  ago,
  callerStatus,
  calmStatus,
  certificateStatus,
  emptyStatus,
  environmentStatus,
  keySourceStatus,
  keyStatus,
  keyVersion,
  rotationStatus,
  uncertainPayment,
} from '../../../support/status.ts';

const day = 86_400;

type Facts = Partial<StatusFacts>;
type Key = Status['keys']['list'][number];
type Environment = Status['environments'][number];

/** What is found in a calm status with these fields instead. */
function found(fields: Facts): string[] {
  return calmStatus(fields).findings.map(
    ({ severity, code, summary, advice }) => `${severity} ${code}: ${summary}. ${advice}`,
  );
}

const environment = (fields: Partial<Environment>): Facts => ({ environments: [environmentStatus(fields)] });
const keys = (...list: Key[]): Facts => ({ keys: { total: list.length, list } });
const vault = (fields: Partial<Status['keySource']>, more: Facts = {}): Facts => ({
  keySource: keySourceStatus({
    type: 'vault',
    address: 'vault.example:8200',
    state: 'up',
    since: ago(90),
    ...fields,
  }),
  ...more,
});
const caller = (...list: Parameters<typeof callerStatus>): Facts => ({ callers: list.map(callerStatus) });
const certificate = (lifetimeDays: number, leftDays: number): Facts => {
  const from = ago((lifetimeDays - leftDays) * day);
  return { certificates: [certificateStatus({ from, until: ago(-leftDays * day) })] };
};
const issuer = (available: boolean, problem: string | null): Facts => ({
  jwtIssuers: [{ name: 'corp', available, problem }],
});
const audit = { up: false, problem: 'ENOSPC' };
const rejected = (rejectedShare: number | null, fields: Partial<Environment> = {}): Facts =>
  environment({ rejectedShare, failures: [{ ...three, cause: 'rejected', lastAt: ago(8) }], ...fields });
const verdicts = (accepted: number, rejected: number, ...rejectedNames: string[]) => ({
  logins: { accepted, rejected, rejectedNames },
});

const none = { detail: null, caller: null, operation: null, login: null };
const three = { ...none, count: 3, share: 0.25, since: ago(0), lastAt: ago(0) };
type Failures = Environment['failures'][number];
/** An environment of which a quarter of the requests failed so. */
const failing = (cause: string, fields: Partial<Failures> = {}, more: Partial<Environment> = {}): Facts =>
  environment({ failedShare: 0.25, failures: [{ ...three, cause, ...fields }], ...more });

type Row = [what: string, fields: Facts, ...expected: RegExp[]];
const failed = (cause: string, detail: string | null, ...expected: RegExp[]): Row => [
  `requests that failed: ${cause} (${detail})`,
  failing(cause, { detail }),
  ...expected,
];
/** The clock of a gateway is off by a minute, that of another one so. */
const clocks = (what: string, host: string, clockSkew: number | null, ...expected: RegExp[]): Row => {
  const other = environmentStatus({ name: 'sandbox', gatewayHost: `${host}.example`, clockSkew });
  const environments = [environmentStatus({ clockSkew: 60 }), other];
  return [`a clock that is off while that of another gateway is ${what}`, { environments }, ...expected];
};

const unusable = keyVersion(3, { state: 'unusable', problem: 'the control key is empty' });
const broken = keyStatus({ signingVersion: null, versions: [unusable] });
const two = (state: Key['versions'][number]['state'], signingVersion: number): Key =>
  keyStatus({ signingVersion, versions: [keyVersion(3, { state }), keyVersion(2)] });
const stale = keyStatus({ staleSince: ago(90) });
const mismatch = {
  at: ago(3),
  requestId: 'id-3',
  environment: 'production',
  operation: 'transfer',
  login: 'acme',
  field: 'order-id' as const,
};

it.each<Row>([
  ['a calm day', {}],
  // Callers.
  [
    'a caller above its limit',
    caller({ limited: 12, limitedAt: ago(59) }),
    /^warn caller-limited: billing .*: 12 requests got 429 .*, the last one 59 s ago.*`maxInFlight` of the caller/,
  ],
  ['a caller that was above its limit a minute ago', caller({ limited: 12, limitedAt: ago(60) })],
  ['one in dry-run', caller({ name: 'trial', mode: 'dry-run' }), /^warn .* of trial is .*Set `enforce`/],
  [
    'two callers in dry-run: once',
    { callers: ['trial', 'next'].map((name) => callerStatus({ name, mode: 'dry-run' })) },
    /^warn caller-dry-run: Every request of trial and 1 other caller is let through/,
  ],
  // Requests in flight.
  ['80 % of the limit', environment({ inFlight: 400 })],
  ['more than 80 %', environment({ inFlight: 401 }), /^warn .*production is near its limit `.*`\. 401 of /],
  [
    'another limit, of one caller',
    failing('overloaded', { detail: 'signing.maxQueue', caller: 'batch', login: 'gamma', lastAt: ago(20) }),
    /^bad saturated: .* last one `signing\.maxQueue`; 3 requests of batch failed .* 20 s\. RSA signatures/,
  ],
  [
    'the limit, and a few requests beyond it',
    failing('overloaded', { detail: 'environments.*.maxInFlight', share: 0.05 }, { inFlight: 500 }),
    /^bad saturated: production is at its limit .* 500 of 500 requests in flight/,
    /^warn .* limit .* `environments\.\*\.maxInFlight`; 3 requests failed .* raise `maxI/,
  ],
  ['requests that wait for less than 4 s', environment({ inFlight: 9, waiting: 3.9 })],
  ['one for 4 s', environment({ inFlight: 1, waiting: 4 }), /^warn .* for 4 s, and 1 request waits/],
  [
    'requests that wait for a minute',
    environment({ inFlight: 9, waiting: 61 }),
    /^bad gateway-silent: .* for 1 min, and 9 requests wait\. .*check --online/,
  ],
  ['half of them in less than 2.5 s', environment({ latency: { p50: 2.4, p99: 9 }, requestsPerSecond: 9 })],
  ['half of nine in 2.5 s', environment({ latency: { p50: 2.5, p99: 9 }, requestsPerSecond: 0.15 })],
  [
    'half of them in 2.5 s',
    environment({ latency: { p50: 2.5, p99: 9 }, requestsPerSecond: 0.2 }),
    /^warn slow: Half of the requests to production take 2\.5 s or longer/,
  ],
  // 401 and 403.
  ['2 % rejections', rejected(0.02)],
  ['no responses', rejected(null)],
  ['more rejections', rejected(0.0201), /^warn gateway-rejections: 2\.0% of/],
  ['half of them rejections', rejected(0.5), /^warn .*: 50% of/],
  ['mostly rejections', rejected(0.6), /^bad .*: 60% of .* No failure for 8 s\. Compare/],
  ['only rejections', rejected(0.03, { allFail: true }), /^bad .*: 3% of .* and now every request fails/],
  ['those of a login', rejected(0.6, verdicts(9, 1, 'gamma')), /403, last of gamma\. .*keys verify/],
  [
    'those of an operation since the start',
    {
      ...failing('rejected', { operation: 'transfer', since: ago(2 * day) }, { rejectedShare: 0.6 }),
      process: { ...calmStatus().process, startedAt: ago(2 * day + 4) },
    },
    /403, all to transfer\. It began 0 s after the start, 2 days ago/,
  ],
  [
    'rejections of many logins',
    rejected(0.6, verdicts(9, 7, 'a', 'b', 'c', 'd', 'e')),
    /403, last of a, b, c, d, e and 2 other logins\./,
  ],
  ['those of every login', rejected(1, verdicts(0, 2)), /^bad gateway-blocks: .* login \(2 .*Do not store/],
  [
    'the same beside another failure',
    failing('gateway-timeout', {}, { rejectedShare: 1, ...verdicts(0, 2) }),
    /^bad gateway-timeout/,
    /^bad gateway-blocks/,
  ],
  ['rejections of the only login', rejected(1, verdicts(0, 1)), /^bad gateway-rejections: /],
  ['rejections of all logins but one', rejected(1, verdicts(1, 5)), /^bad gateway-rejections: /],
  [
    'rejections while a clock is off: no key',
    rejected(1, { ...verdicts(0, 5), clockSkew: 60 }),
    /^bad clock-skew: .* 100% of responses are 401 or 403, .* not because of a key/,
  ],
  ['few with a clock off', rejected(0.1, { ...verdicts(5, 1), clockSkew: -60 }), /^warn clock-skew: .* 10% /],
  ['a clock that is 30 s behind', environment({ clockSkew: -30 })],
  [
    'a clock that is more than 30 s behind',
    environment({ clockSkew: -30.1 }),
    /^warn clock-skew: The clock of the gateway of production is 30 s behind that of this machine\. The gateway may reject timestamps\. Either one may be off\. .*ask the support of the gateway/,
  ],
  clocks('right', 'other', 0.2, /There is no difference to the clock of the gateway of sandbox, so this one/),
  clocks('off by the same', 'other', 55, /clock of this machine is likelier off/, /this machine is likelier/),
  clocks('off by something else', 'other', -55, /Either one may be off/, /Either one may be off/),
  clocks('unknown', 'other', null, /Either one may be off/),
  clocks('that of the same host', 'gateway', 60, /Either one may be off/, /Either one may be off/),
  ['a clock that is ahead', environment({ clockSkew: 31 }), /is 31 s ahead of that of this machine/],
  // Certificates.
  ['a certificate with 7 days left', certificate(90, 7)],
  ['a certificate with less', certificate(90, 6.9), /^warn .*listener expires in 6 days\. Renew it and/],
  ['a certificate with a fifth of a short lifetime left', certificate(1, 0.2)],
  ['a certificate with less of it', certificate(1, 0.19), /^warn .* expires in 4 h/],
  ['a certificate that expires now', certificate(90, 0), /^bad .* listener has expired/],
  ['a certificate that has expired', certificate(90, -0.1), /^bad .* listener has expired/],
  [
    'certificate files that cannot be used: one for all that were in them',
    { certificates: ['listener', 'client-ca'].map((name) => certificateStatus({ name, problem: 'bad' })) },
    /^warn certificate-files-unusable: New certificate files of listener cannot be used: bad\. The previous/,
  ],
  // Keys.
  [
    'a key that is rejected',
    keys(keyStatus({ versions: [keyVersion(3, { state: 'rejected' })] })),
    /^bad key-rejected: Control key of acme in production: the gateway rejects version 3\. If the gateway has a new key, store it/,
  ],
  ['a key that waits', keys(two('waiting', 2)), /^info .*version 3 is waiting .* 2 signs .*balance.*verify/],
  [
    'two versions that wait: the newer one',
    keys(
      keyStatus({ signingVersion: 1, versions: [3, 2].map((one) => keyVersion(one, { state: 'waiting' })) }),
    ),
    /^info .*: version 3 is waiting/,
  ],
  [
    'a key that is no longer accepted',
    keys(keyStatus({ versions: [keyVersion(3), keyVersion(2, { state: 'rejected' })] })),
  ],
  [
    'a new version that cannot be used',
    keys(keyStatus({ signingVersion: 2, versions: [unusable, keyVersion(2)] })),
    /^warn key-unusable: .*: version 3 cannot be used\. The control key is empty\. Version 2 still signs\. Store a correct/,
  ],
  [
    'an older version that cannot be used',
    keys(keyStatus({ versions: [keyVersion(3), { ...unusable, version: 2 }] })),
  ],
  [
    'a key of which no version can be used: the first problem, and its full stop',
    keys({ ...broken, versions: [{ ...unusable, problem: 'the key is too long.' }, unusable] }),
    /^bad .*: no version can sign\. The key is too long\. Requests that need this key fail\./,
  ],
  [
    'a key that is missing while an older version signs',
    keys(keyStatus({ missingSince: ago(60) })),
    /^warn key-missing: Control key of acme in production: missing in the key source since 14:02:07\. Version 3 still signs, until `keys\.rotationGracePeriod`.*Store it/,
  ],
  ['a key and five others', keys(...Array(6).fill(two('waiting', 2))), /The same for 5 other keys: control/],
  [
    'a key and six others: five names',
    keys(...Array(7).fill(two('waiting', 2))),
    /The same for 6 other keys: such as (control key of acme in production, ){4}control key of acme in production\. /,
  ],
  ['a stale key', keys(stale), /^warn keys-stale: The key of acme in production could not be read again\./],
  [
    'stale keys, with the cause of one',
    keys(stale, { ...stale, readProblem: 'denied' }),
    /^warn keys-stale: 2 cached keys, .* could not be read again: denied\./,
  ],
  [
    'stale keys while the source is down: it is the finding',
    vault({ state: 'down' }, keys(stale)),
    /^bad key-source-down: Vault at vault\.example:8200 unavailable for 1 min\. Cached keys are still used\. Repair it, and do not restart/,
  ],
  ['stale keys unknown to it', vault({ loginsNotFound: 1 }, keys(stale)), /^warn .* does not know 1 login /],
  [
    'stale keys of which the source does not know one',
    vault({ loginsNotFound: 1 }, keys(stale, { ...stale, environment: 'sandbox' })),
    /^warn logins-not-found/,
    /^warn keys-stale: 2 cached keys/,
  ],
  ['logins unknown to it', vault({ loginsNotFound: 3000 }), /^bad logins-.* 3,000 logins .* lose them/],
  // The key source.
  [
    'a source that is down, by a clock that was set back',
    vault({ state: 'down', since: ago(-5), problem: 'refused.' }),
    /^bad key-source-down: Vault at vault\.example:8200 unavailable for 0 s: refused\. Cached keys/,
  ],
  ['an outage without keys', vault({ state: 'down' }, keys()), /No key is cached, .* fail\. .*--online/],
  [
    'a source that denies logins; their stale keys are no other finding',
    vault({ state: 'denied', deniedLogins: 3, problem: 'HTTP 403' }, keys(stale)),
    /^bad key-source-denied: Vault denies reading the keys of 3 logins for 1 min: HTTP 403\. Cached keys sign until .*; requests of other logins/,
  ],
  [
    'a source that denies a login whose keys are cached',
    vault({ state: 'denied', deniedLogins: 1, cachedKeysExpireAt: ago(-28_800) }),
    /^bad key-source-denied: .* Cached keys sign until 22:03:07; requests of other logins/,
  ],
  [
    'a source that denies logins, and no keys',
    vault({ state: 'denied', deniedLogins: 3, deniedLogin: 'sandbox/acme' }, keys()),
    /^bad key-source-denied: .* of 3 logins, such as acme in sandbox, .*No key is cached, so requests of the/,
  ],
  ['cached keys with six hours left', vault({ cachedKeysExpireAt: ago(-21_600) })],
  ['cached keys with less', vault({ cachedKeysExpireAt: ago(-21_599) }), /^bad .* run out in 5 h\. .* not/],
  ['a failed reload', { config: { ...calmStatus().config, problem: 'it is' } }, /^warn .*: It is\. Correct/],
  // Others.
  ['the keys of an issuer', issuer(true, null)],
  ['keys of an issuer that fails', issuer(true, 'timeout'), /^warn .* corp .* fetched: timeout\. The prev/],
  ['no keys of an issuer', issuer(false, 'timeout'), /^bad jwt-keys-stale: .*: timeout\. Callers with its/],
  ['keys of an issuer before the first fetch', issuer(false, null), / cannot be fetched: not tried yet\. /],
  ['an audit trail that fails', { audit }, /^warn .* cannot be written: ENOSPC\. They wait/],
  [
    'a required audit trail that cannot be written',
    { audit, health: { ready: false, reasons: ['audit-unavailable'], warnings: [] } },
    /^bad audit-unavailable: .*ENOSPC\. Nothing is sent/,
  ],
  ['no claims', { claims: { up: false, problem: 'refused' } }, /^bad .*: refused\. No payment is sent/],
  // Failed requests.
  [
    'no connection to the gateway',
    failing('gateway-unreachable', { detail: 'refused' }),
    /^bad gateway-unreachable: production: gateway unreachable, connection refused; 3 requests failed in the last minute, 25% of all\. Nothing was sent\. Is it running/,
  ],
  failed('gateway-unreachable', 'dns', /host name cannot be resolved \(DNS\); .* Check `baseUrl`/),
  failed('gateway-unreachable', 'tls', /the TLS handshake fails; .* `caFile`/),
  failed('gateway-unreachable', 'timeout', /no connection in time; .* firewalls/),
  failed('gateway-unreachable', 'other', /the connection fails; .* The log has the code\.$/),
  failed('gateway-timeout', null, /^bad gateway-timeout: .*does not respond in time.*`timeouts\.request`/),
  failed('gateway-reset', null, /^bad gateway-response-incomplete: .*ends connections .*Look for a proxy/),
  failed('gateway-reset', 'unknown ca', /-response-incomplete: .*TLS alert: unknown ca; .*`certFile`/),
  failed('gateway-reply-invalid', null, /^bad gateway-response-incomplete: .*not valid HTTP/),
  failed('gateway-status', '503', /^bad gateway-server-error: .*server errors \(503\)/),
  failed('key-source-unavailable', 'denied', /^bad keys-unreadable: .* none are cached \(denied\)/),
  failed('signing-unavailable', null, /^bad signing-unavailable: .*Vault does not sign/),
  failed('key-missing', 'private_key', /^bad key-missing: production: a login has no RSA key; 3/),
  failed('key-missing', null, /^bad key-missing: .* a login has no key of either kind; 3/),
  failed('key-unusable', 'private_key', /^bad key-unusable: .* RSA key of a login cannot be used/),
  failed('internal', null, /^bad internal-error: production: internal error; .* The log has a line/),
  // What has a finding of its own is no other.
  failed('audit-unavailable', null),
  [
    'requests of a key that cannot be used: the finding about the key',
    { ...failing('key-unusable'), ...keys(broken) },
    /^bad key-unusable: Control key of acme/,
  ],
  [
    'a key of another environment that cannot be used',
    { ...failing('key-unusable'), ...keys({ ...broken, environment: 'sandbox' }) },
    /^bad key-unusable: Control key of acme in sandbox/,
    /^bad key-unusable: production: /,
  ],
  [
    'an unusable key whose newest version was deleted, and requests that need it',
    { ...failing('key-unusable'), ...keys({ ...broken, missingSince: ago(60) }) },
    /^bad key-unusable: production: the control key of a login cannot be used/,
  ],
  ['failures of less than a tenth', failing('gateway-timeout', { share: 0.099 }), /^warn /],
  [
    'failures 8 s ago',
    failing('internal', { share: 0.1, lastAt: ago(8) }),
    /^bad .* all\. No failure for 8 s\./,
  ],
  [
    'requests that failed: few, some time ago, while all fail for another cause',
    failing('gateway-timeout', { share: 0.01, lastAt: ago(8) }, { allFail: true }),
    /^warn gateway-timeout: .* in the last minute, 1% of all\. No failure for 8 s\. /,
  ],
  ['all fail', failing('internal', { share: 0.01 }, { allFail: true }), /^bad .* 3 .* now every one fails/],
  [
    'failures of a login and an operation since a configuration',
    failing('internal', { login: 'gamma', operation: 'transfer', since: ago(2 * day - 59) }),
    /; 3 transfer requests of gamma failed .* 59 s after the configuration was loaded, 2 days ago\./,
  ],
  // Orders.
  [
    'responses about another order',
    { orderMismatches: [mismatch, { ...mismatch, requestId: 'id-9' }] },
    /^bad order-mismatch: 2 responses of production in the last hour about another order than the request\. The last one: order-id of transfer, request id-3\. Query the status/,
  ],
  [
    'a response about another amount',
    { orderMismatches: [{ ...mismatch, field: 'amount' }] },
    /^warn order-mismatch: 1 response of production .* about another amount or currency than the request/,
  ],
  [
    'the most serious first',
    {
      environments: [environmentStatus({ clockSkew: 99 }), environmentStatus({ inFlight: 500 })],
      keys: rotationStatus().keys,
    },
    /^bad /,
    /^warn /,
    /^info /,
  ],
])('of %s is found', (_what, fields, ...expected) => {
  expect(found(fields)).toEqual(expected.map((one) => expect.stringMatching(one)));
});

it('an instance is well unless a finding is bad, and every reason and warning of its readiness is one', () => {
  expect(emptyStatus()).toMatchObject({ findings: [], well: true });
  expect(calmStatus(certificate(90, 6)).well).toBe(true);
  const { reasons, warnings } = computeReadiness({
    draining: true,
    keySourceReady: false,
    keysCached: false,
    auditUnavailable: true,
    jwtKeysAvailable: false,
    logLinesDropped: true,
    logStalled: true,
  });
  const health = { ready: false, reasons: [...reasons], warnings: [...warnings] };
  const status = calmStatus({ health, ...issuer(false, 'refused') });
  expect(status.well).toBe(false);
  expect(status.findings.map(({ severity, code }) => `${severity} ${code}`)).toEqual([
    'bad draining',
    'bad audit-unavailable',
    'bad key-source-down',
    'bad jwt-keys-stale',
    'warn log-lines-dropped',
  ]);
});

it.each<[what: string, fields: Facts, about: object]>([
  [
    'a caller',
    caller({ limited: 1, limitedAt: ago(1) }),
    { caller: 'billing', runbookSection: '#caller-limit' },
  ],
  [
    'the certificate of an environment',
    { certificates: [certificateStatus({ environment: 'sandbox', until: ago(-6 * day) })] },
    { environment: 'sandbox', summary: 'Certificate listener of sandbox expires in 6 days' },
  ],
  ['a key', keys(two('rejected', 3)), { environment: 'production', login: 'acme' }],
  ['one login that is rejected', rejected(0.6, verdicts(9, 1, 'gamma')), { login: 'gamma' }],
  ['several', rejected(0.6, verdicts(9, 2, 'gamma', 'beta')), { login: null, environment: 'production' }],
  [
    'a login that is denied',
    vault({ state: 'denied', deniedLogins: 1, deniedLogin: 'sandbox/acme' }),
    { environment: 'sandbox', login: 'acme', summary: expect.stringMatching(/of login acme in sandbox/) },
  ],
  [
    'several logins that the source does not know',
    vault({ loginsNotFound: 3, loginNotFound: 'sandbox/acme' }),
    { environment: null, login: null, summary: expect.stringMatching(/3 logins, such as acme in sandbox/) },
  ],
  ['requests', failing('internal', { login: 'a' }), { login: 'a', runbookSection: '#internal-error' }],
])('a finding about %s names it, and has the section of its own cause', (_what, fields, about) => {
  expect(calmStatus(fields).findings).toEqual([expect.objectContaining(about)]);
});

describe('payments whose outcome is not known', () => {
  it('are bad, with what is needed to query each', () => {
    const payments = [3, 600].map((seconds) =>
      uncertainPayment({ at: ago(seconds), requestId: `id-${seconds}`, orderId: `order-${seconds}` }),
    );
    const server = uncertainPayment({ environment: 'sandbox', outcome: 'answered', login: 'beta' });
    const mixed = ['acme', 'beta'].map((login) => uncertainPayment({ environment: 'third', login }));
    const { well, findings } = calmStatus({ uncertainPayments: [...mixed, server, ...payments] });
    expect(well).toBe(false);
    expect(findings).toMatchObject([
      { environment: 'third', login: null },
      {
        code: 'outcome-unknown',
        summary: '1 payment of sandbox in the last hour answered with a server error',
        login: 'beta',
      },
      {
        severity: 'bad',
        summary: '2 payments of production in the last hour sent without a complete response',
        advice: expect.stringMatching(/^Each may have been processed\. Query/),
        login: 'acme',
        payments,
      },
    ]);
  });

  it('may be more if there are a thousand of an environment', () => {
    const payment = uncertainPayment();
    const adviceFor = (length: number): string | undefined =>
      found({
        uncertainPayments: [...Array(length).fill(payment), { ...payment, environment: 'sandbox' }],
      })[0];
    expect(adviceFor(999)).not.toContain('There may be more');
    expect(adviceFor(1_000)).toMatch(/There may be more: the log has all of them\./);
  });
});
