import { describe, expect, it } from '@jest/globals';
import { computeReadiness } from '../../../../src/observability/readiness.ts';
import type { StatusFacts } from '../../../../src/observability/status/facts.ts';
import { renderStatusPage } from '../../../../src/observability/status/page.ts';
import type { Status } from '../../../../src/observability/status/schema.ts';
import {
  ago,
  calmStatus,
  certificateStatus,
  emptyStatus,
  environmentStatus,
  failedRequest,
  keyStatus,
  keyVersion,
  rotationStatus,
  uncertainPayment,
} from '../../../support/status.ts';

const day = 86_400;

/** What is found in a calm status with these fields instead. */
function found(fields: Partial<StatusFacts>): string[] {
  return calmStatus(fields).findings.map(
    ({ severity, code, summary, advice }) => `${severity} ${code}: ${summary}. ${advice}`,
  );
}

function textOf(page: string): string {
  return page
    .replace(/<style>[^]*<\/script>/, '')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ');
}

const pageOf = (fields: Partial<StatusFacts>): string => textOf(renderStatusPage(calmStatus(fields)));

it('nothing is found on a calm day, and after the start', () => {
  expect(found({})).toEqual([]);
  expect(emptyStatus()).toMatchObject({ findings: [], well: true });
  expect(pageOf({})).toContain('Ready This instance receives requests. Nothing needs attention.');
});

describe('health', () => {
  it('has a finding for every reason and warning', () => {
    const { reasons, warnings } = computeReadiness({
      draining: true,
      keySourceReady: false,
      keysCached: false,
      auditUnavailable: true,
      jwtKeysAvailable: false,
      logLinesDropped: true,
      logStalled: true,
    });
    // What is known of the issuers of JWTs has the cause.
    const jwtIssuers = [{ name: 'corp', available: false, problem: 'refused' }];
    const health = { ready: false, reasons: [...reasons], warnings: [...warnings] };
    const status = calmStatus({ health, jwtIssuers });
    expect(status.well).toBe(false);
    expect(status.findings.map(({ severity, code }) => `${severity} ${code}`)).toEqual([
      'bad draining',
      'bad audit-unavailable',
      'bad key-source-down',
      'bad jwt-keys-stale',
      'warn log-lines-dropped',
    ]);
    expect(textOf(renderStatusPage(status))).toContain(
      'Not ready This instance should not receive requests. 5 problems:',
    );
  });
});

it('a caller above its limit is found until a minute after the last 429', () => {
  const [caller] = calmStatus().callers;
  const limited = (seconds: number) =>
    calmStatus({ callers: caller ? [{ ...caller, limited: 12, limitedAt: ago(seconds) }] : [] }).findings;
  expect(limited(59)).toMatchObject([
    {
      severity: 'warn',
      code: 'caller-limited',
      caller: 'billing',
      summary: expect.stringMatching(
        /^billing sends more .*: 12 requests got 429 since the start, the last one 59 s ago/,
      ),
      advice: expect.stringMatching(/`maxInFlight` of the caller/),
      runbookSection: '#caller-limit',
    },
  ]);
  expect(limited(60)).toEqual([]);
});

it('callers in dry-run are found, once', () => {
  const [billing, ...others] = calmStatus({}).callers;
  const trial = {
    name: 'trial',
    mode: 'dry-run',
    requests: 0,
    denied: 0,
    limited: 0,
    limitedAt: null,
    lastSeenAt: null,
  } as const;
  const advice =
    'is let through: mode is dry-run. Set `enforce` when the log has no more requests with the decision `would-deny`.';
  expect(billing).toBeDefined();
  expect(calmStatus({ callers: [...others, trial] }).findings).toMatchObject([{ caller: 'trial' }]);
  expect(found({ callers: [...others, trial] })).toEqual([
    `warn caller-dry-run: Every request of trial ${advice}`,
  ]);
  expect(found({ callers: [trial, ...others, { ...trial, name: 'next' }] })).toEqual([
    `warn caller-dry-run: Every request of trial and 1 other caller ${advice}`,
  ]);
});

describe('an environment', () => {
  const environment = (fields: object) => found({ environments: [environmentStatus(fields)] });

  it('is near its limit above 80 %, and at it', () => {
    expect(environment({ inFlight: 400 })).toEqual([]);
    expect(environment({ inFlight: 401 })).toEqual([
      expect.stringMatching(/^warn saturated: production is near its limit\. 401 of 500 requests in flight/),
    ]);
    expect(environment({ inFlight: 500 })).toEqual([
      expect.stringMatching(/^bad saturated: production is at its limit/),
    ]);
  });

  it('is silent from 4 s without the end of a request: bad if several wait', () => {
    expect(environment({ inFlight: 9, waiting: 3.9 })).toEqual([]);
    expect(environment({ inFlight: 1, waiting: 4 })).toEqual([
      expect.stringMatching(
        /^warn gateway-silent: production: no request has ended for 4 s, and 1 request waits/,
      ),
    ]);
    expect(environment({ inFlight: 9, waiting: 61 })).toEqual([
      expect.stringMatching(/^bad gateway-silent: .* for 1 min, and 9 requests wait\. .*check --online/),
    ]);
  });

  it('gets too many 401 or 403 above 2 %, and mostly those', () => {
    const rejected = (rejectedShare: number | null) => environment({ rejectedShare, rejectedRequests: 1 });
    expect(rejected(0.02)).toEqual([]);
    expect(rejected(null)).toEqual([]);
    expect(rejected(0.0201)).toEqual([expect.stringMatching(/^warn .*: 2\.0% of/)]);
    expect(rejected(0.5)).toEqual([expect.stringMatching(/^warn .*: 50% of/)]);
    expect(rejected(0.6)).toEqual([expect.stringMatching(/^bad .*: 60% of/)]);
  });

  it('gets 401 or 403 for logins, which are named', () => {
    const logins = (rejected: number, ...rejectedNames: string[]) =>
      calmStatus({
        environments: [
          environmentStatus({
            rejectedShare: 0.6,
            rejectedRequests: 9,
            logins: { accepted: 9, rejected, rejectedNames },
          }),
        ],
      }).findings;
    expect(logins(1, 'gamma')).toMatchObject([
      { login: 'gamma', summary: '60% of responses from production are 401 or 403, last of gamma' },
    ]);
    expect(logins(7, 'a', 'b', 'c', 'd', 'e')).toMatchObject([
      { login: null, summary: expect.stringMatching(/403, last of a, b, c, d, e and 2 other logins$/) },
    ]);
  });

  it('gets 401 or 403, but every request succeeds with another key, as during a rotation', () => {
    expect(environment({ rejectedShare: 0.6, rejectedRequests: 0 })).toEqual([
      expect.stringMatching(/^info gateway-rejections: 60% of .* are 401 or 403\. No request failed/),
    ]);
  });

  it('has another time beyond 30 s, in either direction', () => {
    expect(environment({ clockSkew: -30 })).toEqual([]);
    expect(environment({ clockSkew: -30.1 })).toEqual([
      expect.stringMatching(
        /The clock of the gateway of production is 30 s behind that of this machine.*The gateway may reject timestamps\. Either one may be off: .*ask the support of the gateway/,
      ),
    ]);
    expect(environment({ clockSkew: 31 })).toEqual([
      expect.stringMatching(/is 31 s ahead of that of this machine/),
    ]);
  });
});

describe('a certificate', () => {
  const certificate = (lifetimeDays: number, leftDays: number) => {
    const from = ago((lifetimeDays - leftDays) * day);
    return found({ certificates: [certificateStatus({ from, until: ago(-leftDays * day) })] });
  };

  it('expires soon within 7 days, or a fifth of a shorter lifetime', () => {
    expect(certificate(90, 7)).toEqual([]);
    expect(certificate(90, 6.9)).toEqual([
      'warn certificate-expiring: Certificate listener expires in 6 days. Renew it and replace the file; no restart is needed.',
    ]);
    expect(certificate(1, 0.2)).toEqual([]);
    expect(certificate(1, 0.19)).toEqual([expect.stringMatching(/^warn .* expires in 4 h/)]);
  });

  it('was replaced by a file that cannot be used: one finding for all that were in its files', () => {
    const problem = 'crl.pem has a revocation list that is older than the one in use';
    const names = ['listener', 'listener-client-ca', 'listener-client-crl'];
    expect(found({ certificates: names.map((name) => certificateStatus({ name, problem })) })).toEqual([
      `warn certificate-files-unusable: New certificate files of listener cannot be used: ${problem}. The previous ones are in use. Correct the files; no restart is needed.`,
    ]);
  });

  it('is that of an environment', () => {
    const until = ago(-6 * day);
    const one = certificateStatus({ name: 'gateway-ca', environment: 'sandbox', until });
    expect(calmStatus({ certificates: [one] })).toMatchObject({
      well: true,
      findings: [{ environment: 'sandbox', summary: 'Certificate gateway-ca of sandbox expires in 6 days' }],
    });
  });

  it('has expired', () => {
    expect(certificate(90, 0)).toEqual([expect.stringMatching(/^bad .* listener has expired/)]);
    expect(certificate(90, -0.1)).toEqual([expect.stringMatching(/^bad .* listener has expired/)]);
  });
});

describe('a key', () => {
  const keys = (...list: Status['keys']['list']) => found({ keys: { total: list.length, list } });
  const two = (state: Status['keys']['list'][number]['versions'][number]['state'], signingVersion: number) =>
    keyStatus({ signingVersion, versions: [keyVersion(3, { state }), keyVersion(2)] });

  it('is rotated, Vault first: the newer version is waiting, then it signs', () => {
    const page = textOf(renderStatusPage(rotationStatus()));
    expect(page).toContain('Nothing needs attention.');
    expect(page).toContain('RSA key of acme in production: version 2 is waiting for the gateway');
    expect(page).toContain('version 2 Waiting for the gateway 6 min');
    expect(page).toContain('version 1 In use 201 days');
    expect(page).toContain('Register the public key of version 2 at the gateway');
    const done = { signingVersion: 2 };
    const versions = [keyVersion(2), keyVersion(1, { state: 'replaced' })];
    const after = pageOf({ keys: { total: 1, list: [keyStatus({ ...done, versions })] } });
    expect(after).toMatch(/version 2 In use 40 days .*version 1 Replaced/);
    expect(after).not.toContain('waiting');
  });

  it('is rotated, gateway first: the only version is rejected', () => {
    const rejected = keyStatus({ versions: [keyVersion(3, { state: 'rejected' })] });
    expect(calmStatus({ keys: { total: 1, list: [rejected] } }).findings).toMatchObject([
      { environment: 'production', login: 'acme' },
    ]);
    expect(keys(rejected)).toEqual([
      'bad key-rejected: Control key of acme in production: the gateway rejects version 3. If the gateway has a new key, store it in the key source: Countersign looks for it each second while there are requests.',
    ]);
  });

  it('cannot be used, with and without another version that can', () => {
    const broken = keyVersion(3, { state: 'unusable', problem: 'the control key is empty' });
    expect(keys(keyStatus({ signingVersion: 2, versions: [broken, keyVersion(2)] }))).toEqual([
      expect.stringMatching(
        /^warn .*: version 3 cannot be used\. The control key is empty\. Store a correct/,
      ),
    ]);
    expect(keys(keyStatus({ signingVersion: null, versions: [broken] }))).toEqual([
      expect.stringMatching(
        /^bad .*: no version can sign\. The control key is empty\. Requests that need this key fail\./,
      ),
    ]);
    // One problem is enough, and its full stop.
    const both = [
      { ...broken, problem: 'the key is too long.' },
      { ...broken, version: 2 },
    ];
    expect(keys(keyStatus({ signingVersion: null, versions: both }))).toEqual([
      expect.stringMatching(/no version can sign\. The key is too long\. Requests that need this key fail\./),
    ]);
    const older = keyStatus({ versions: [keyVersion(3), { ...broken, version: 2 }] });
    expect(keys(older)).toEqual([]);
    expect(pageOf({ keys: { total: 1, list: [older] } })).toMatch(
      /version 2 Unusable the control key is empty/,
    );
  });

  it.each([
    [
      5,
      /The same for 5 other keys: (Control key of acme in production, ){4}Control key of acme in production\. /,
    ],
    [
      6,
      /The same for 6 other keys: such as (Control key of acme in production, ){4}Control key of acme in production\. /,
    ],
  ])(
    'is one of several with the same to say, of which five have their names: %d others',
    (others, expected) => {
      expect(keys(...Array.from({ length: others + 1 }, () => two('waiting', 2)))).toEqual([
        expect.stringMatching(expected),
      ]);
    },
  );

  it('is listed first if there is something to say', () => {
    const list = [keyStatus({ login: 'normal' }), { ...two('waiting', 2), login: 'special' }];
    expect(pageOf({ keys: { total: 2, list } })).toMatch(/production\/special .* production\/normal/);
    const stale = [keyStatus({ login: 'normal' }), keyStatus({ login: 'stale', staleSince: ago(3) })];
    expect(pageOf({ keys: { total: 2, list: stale } })).toMatch(/production\/stale .* production\/normal/);
  });

  it('that the gateway rejects is no problem after a newer one', () => {
    const versions = [keyVersion(3), keyVersion(2, { state: 'rejected' })];
    const keys = { total: 1, list: [keyStatus({ versions })] };
    expect(found({ keys })).toEqual([]);
    expect(pageOf({ keys })).toContain('version 2 No longer accepted');
  });

  it('is stale: that is a separate finding only while the key source is up', () => {
    const keys = { total: 1, list: [keyStatus({ staleSince: ago(90) })] };
    const { keySource } = calmStatus();
    expect(found({ keys })).toEqual([
      expect.stringMatching(/^warn keys-stale: The key of acme in production could not be read again\./),
    ]);
    const denied = keyStatus({ staleSince: ago(90), readProblem: 'denied' });
    expect(found({ keys: { total: 2, list: [...keys.list, denied] } })).toEqual([
      expect.stringMatching(/^warn keys-stale: 2 cached keys, .* could not be read again: denied\./),
    ]);
    expect(
      found({ keys, keySource: { ...keySource, state: 'down', since: ago(90), problem: null } }),
    ).toEqual([
      'bad key-source-down: Vault unavailable for 1 min. Cached keys are still used. Repair it, and do not restart: the cached keys would be lost.',
    ]);
    expect(found({ keys, keySource: { ...keySource, loginsNotFound: 1 } })).toEqual([
      expect.stringMatching(/^warn logins-not-found: Vault does not know 1 login whose cached keys are used/),
    ]);
    const twice = [...keys.list, keyStatus({ environment: 'sandbox', staleSince: ago(90) })];
    expect(
      found({ keys: { total: 2, list: twice }, keySource: { ...keySource, loginsNotFound: 1 } }),
    ).toContainEqual(expect.stringMatching(/^warn keys-stale: 2 cached keys/));
    expect(found({ keySource: { ...keySource, loginsNotFound: 3000 } })).toEqual([
      expect.stringMatching(
        /^bad logins-not-found: Vault does not know 3,?000 logins .* lose them\. Was the/,
      ),
    ]);
  });

  it('of a directory has no other name on the page than elsewhere', () => {
    const seconds = Date.parse(ago(600)) / 1000;
    const list = [
      keyStatus({
        signingVersion: seconds,
        versions: [keyVersion(seconds + 60, { state: 'waiting' }), keyVersion(seconds)],
      }),
    ];
    const keySource = {
      type: 'directory',
      state: 'up',
      deniedLogins: 0,
      deniedLogin: null,
      since: null,
      problem: null,
      tokenExpiresAt: null,
      loginsNotFound: 0,
      loginNotFound: null,
      cachedKeysExpireAt: null,
    } as const;
    const page = pageOf({ keys: { total: 1, list }, keySource });
    expect(page).toContain(`version ${seconds + 60} Waiting for the gateway`);
    expect(page).toContain(`Version ${seconds} signs until then. The gateway makes control keys: check that`);
    expect(page).not.toContain('countersign keys verify');
  });
});

it('the key source has a token only if it is Vault, and a time only if it was read', () => {
  const { keySource } = calmStatus();
  expect(pageOf({})).toMatch(/Vault Up \S+ \S+ 9 days ago Vault token 14:46:07 in 43 min/);
  expect(pageOf({ keySource: { ...keySource, tokenExpiresAt: null } })).not.toContain('Vault token');
  expect(textOf(renderStatusPage(emptyStatus()))).toContain('Key directory not read yet - ');
});

it('a key source that denies logins is bad, and says how many; their stale keys are no other finding', () => {
  const keySource = {
    ...calmStatus().keySource,
    state: 'denied' as const,
    deniedLogins: 3,
    deniedLogin: null,
    since: ago(90),
    problem: 'Vault denied permission (HTTP 403)',
  };
  const stale = keyStatus({ staleSince: ago(60) });
  expect(found({ keySource, keys: { total: 1, list: [stale] } })).toEqual([
    expect.stringMatching(
      /^bad key-source-denied: Vault denies reading the keys of 3 logins for 1 min: Vault denied permission \(HTTP 403\)/,
    ),
  ]);
  expect(pageOf({ keySource })).toMatch(/Vault Denies keys .* 1 min ago/);
});

it('a key source that is down says whether keys are cached', () => {
  const keySource = { ...calmStatus().keySource, state: 'down' as const, problem: 'refused.' };
  // The clock was set back.
  const [cached] = found({ keySource: { ...keySource, since: ago(-5) } });
  expect(cached).toMatch(/^bad key-source-down: Vault unavailable for 0 s: refused\. /);
  expect(cached).toMatch(/Cached keys are still used\. Repair it, and do not restart/);
  const [none] = found({ keySource, keys: { total: 0, list: [] } });
  expect(none).toMatch(/^bad key-source-down: .*refused\. No key is cached, so requests that need one fail/);
});

it('a key source that denies keys says whether keys are cached', () => {
  const keySource = {
    ...calmStatus().keySource,
    state: 'denied' as const,
    deniedLogins: 1,
    deniedLogin: null,
    problem: 'denied',
  };
  const named = { ...keySource, deniedLogin: 'sandbox/acme' };
  expect(calmStatus({ keySource: named }).findings).toMatchObject([
    {
      environment: 'sandbox',
      login: 'acme',
      summary: expect.stringMatching(/^Vault denies reading the keys of login acme in sandbox/),
    },
  ]);
  expect(calmStatus({ keySource: { ...named, deniedLogins: 3 } }).findings).toMatchObject([
    { login: null, summary: expect.stringMatching(/of 3 logins, such as acme in sandbox, /) },
  ]);
  expect(found({ keySource })[0]).toMatch(/Cached keys sign until .*; requests of other logins/);
  const [none] = found({ keySource, keys: { total: 0, list: [] } });
  expect(none).toMatch(
    /^bad key-source-denied: .*denied\. No key is cached, so requests of the logins that it/,
  );
});

it('cached keys that run out are found six hours before, as the alert is', () => {
  const left = (seconds: number) =>
    found({ keySource: { ...calmStatus().keySource, cachedKeysExpireAt: ago(-seconds) } });
  expect(left(21_600)).toEqual([]);
  expect(left(21_599)).toEqual([
    expect.stringMatching(/^bad cached-keys-expiring: Cached keys .* run out in 5 h\. .* do not restart/),
  ]);
});

it('an expired Vault token and a failed reload are found', () => {
  const { keySource, config } = calmStatus();
  expect(found({ keySource: { ...keySource, tokenExpiresAt: ago(0) } })).toEqual([
    expect.stringMatching(/^warn vault-token-expired: The Vault token has expired/),
  ]);
  expect(found({ config: { ...config, reloadFailed: true } })).toEqual([
    expect.stringMatching(/^warn config-reload-failed: The configuration was not reloaded/),
  ]);
});

it('the most serious is found first', () => {
  const tones = found({
    environments: [environmentStatus({ clockSkew: 99 }), environmentStatus({ inFlight: 500 })],
    keys: rotationStatus().keys,
  }).map((one) => one.split(' ')[0]);
  expect(tones).toEqual(['bad', 'warn', 'info']);
});

describe('a failed request', () => {
  const failure = failedRequest({ runbookSection: '#countersignclockskew' });

  it('links to the runbook if its URL is configured', () => {
    const runbookUrl = 'https://wiki.example/runbook';
    const page = renderStatusPage(calmStatus({ failures: [failure], runbookUrl }));
    expect(page).toContain('href="https://wiki.example/runbook#countersignclockskew"');
    const without = renderStatusPage(calmStatus({ failures: [failure], runbookUrl: null }));
    expect(without).not.toContain('https://');
  });

  it.each([
    ['answered', 'idle'],
    ['not-sent', 'idle'],
    ['unknown', 'bad'],
  ] as const)('stands out only if its outcome is not known: %s', (outcome, tone) => {
    const page = renderStatusPage(calmStatus({ failures: [failedRequest({ outcome })] }));
    expect(page).toContain(`<span class="pill ${tone}" title="">${outcome}</span>`);
  });
});

describe('requests of the last minute that failed', () => {
  const failing = (cause: string, fields: object = {}, more: Partial<StatusFacts> = {}) => {
    const failures = [{ cause, detail: null, login: null, count: 3, share: 0.25, lastAt: ago(0), ...fields }];
    return found({ environments: [environmentStatus({ failedShare: 0.25, failures })], ...more });
  };

  it.each([
    [
      'gateway-unreachable',
      'refused',
      /^bad gateway-unreachable: production: gateway unreachable, connection refused; 3 requests failed in the last minute, 25% of all\. Nothing was sent\. Is it running/,
    ],
    ['gateway-unreachable', 'dns', /host name cannot be resolved \(DNS\); .* Check `baseUrl`/],
    ['gateway-unreachable', 'tls', /the TLS handshake fails; .* `caFile`/],
    ['gateway-unreachable', 'timeout', /no connection in time; .* firewalls/],
    ['gateway-unreachable', 'other', /the connection fails; .* The log has the code\.$/],
    ['gateway-timeout', null, /^bad gateway-timeout: .*does not respond in time.*`timeouts\.request`/],
    [
      'gateway-reset',
      null,
      /^bad gateway-response-incomplete: .*ends connections before its .*Look for a proxy/,
    ],
    [
      'gateway-reset',
      'unknown ca',
      /^bad gateway-response-incomplete: .*a TLS alert: unknown ca; .*`certFile`/,
    ],
    ['gateway-reply-invalid', null, /^bad gateway-response-incomplete: .*not valid HTTP/],
    ['gateway-status', '503', /^bad gateway-server-error: .*server errors \(503\)/],
    ['key-source-unavailable', 'denied', /^bad keys-unreadable: .*cannot be read, and none .* \(denied\)/],
    ['key-missing', null, /^bad key-missing: .*has no key/],
    ['internal', null, /^bad internal-error: production: internal error; .* The log has a line/],
  ])('are found with cause and remedy: %s (%s)', (cause, detail, expected) => {
    expect(failing(cause, { detail })).toEqual([expect.stringMatching(expected)]);
  });

  it('are bad from a tenth of all, and say when the last one was', () => {
    expect(failing('gateway-timeout', { share: 0.099 })).toEqual([expect.stringMatching(/^warn /)]);
    expect(failing('gateway-timeout', { share: 0.1, lastAt: ago(8) })).toEqual([
      expect.stringMatching(/^bad .* of all\. No failure for 8 s\. /),
    ]);
  });

  it('are bad as soon as every request fails, however many succeeded before', () => {
    const failures = [
      { cause: 'gateway-timeout', detail: null, login: null, count: 3, share: 0.01, lastAt: ago(0) },
    ];
    const environments = [environmentStatus({ allFail: true, failures, failedShare: 0.01 })];
    expect(found({ environments })).toEqual([
      expect.stringMatching(
        /^bad gateway-timeout: .* 3 requests failed in the last minute, now every one fails/,
      ),
    ]);
    const rejected = [environmentStatus({ allFail: true, rejectedShare: 0.03, rejectedRequests: 1 })];
    expect(found({ environments: rejected })).toEqual([
      expect.stringMatching(/^bad gateway-rejections: 3% of .* are 401 or 403, and now every request fails/),
    ]);
  });

  it('are of a login, if all of them are, and have the section of their own cause', () => {
    const about = (fields: object) => {
      const failures = [
        { cause: 'key-source-unavailable', detail: null, login: null, count: 3, share: 0.25, lastAt: ago(0) },
      ].map((one) => ({ ...one, ...fields }));
      return calmStatus({ environments: [environmentStatus({ failures })] }).findings;
    };
    expect(about({ login: 'gamma' })).toMatchObject([
      {
        code: 'keys-unreadable',
        login: 'gamma',
        summary: expect.stringMatching(/; 3 requests of gamma failed in the last minute/),
        runbookSection: '#countersignkeysourcedown',
      },
    ]);
    expect(about({})).toMatchObject([{ login: null, summary: expect.stringMatching(/; 3 requests failed/) }]);
    expect(about({ cause: 'internal' })).toMatchObject([{ runbookSection: '#internal-error' }]);
    expect(about({ cause: 'gateway-status' })).toMatchObject([{ runbookSection: '#gateway-server-error' }]);
  });

  it('because of the limit are a finding about the limit, which says whether it is still reached', () => {
    const saturated = (inFlight: number) =>
      found({
        environments: [
          environmentStatus({
            inFlight,
            maxInFlight: 20,
            failures: [
              { cause: 'overloaded', detail: null, login: null, count: 3, share: 0.25, lastAt: ago(20) },
            ],
          }),
        ],
      });
    expect(saturated(0)).toEqual([
      expect.stringMatching(
        /^bad saturated: production was at its limit, and 3 requests got 503 in the last minute\. No failure for 20 s\. 0 of 20 requests in flight/,
      ),
    ]);
    expect(saturated(20)).toEqual([
      expect.stringMatching(/^bad saturated: production is at its limit, and 3/),
    ]);
  });

  it.each(['audit-unavailable', 'shutting-down'])(
    'because of what has a finding of its own are no other: %s',
    (cause) => {
      expect(failing(cause)).toEqual([]);
    },
  );

  it('because of an unusable key are part of the finding about the key', () => {
    const key = keyStatus({ signingVersion: null, versions: [keyVersion(3, { state: 'unusable' })] });
    const about = (...list: Status['keys']['list']) =>
      failing('key-unusable', {}, { keys: { total: list.length, list } });
    expect(about(key)).toEqual([expect.stringMatching(/^bad key-unusable: Control key of acme/)]);
    const ofRequests = expect.stringMatching(/^bad key-unusable: production: /);
    expect(about({ ...key, environment: 'sandbox' })).toContainEqual(ofRequests);
    // A key that signs says nothing about the requests that have none.
    expect(about()).toEqual([ofRequests]);
  });
});

it('payments whose outcome is not known are bad, with what is needed to query each', () => {
  const payments = [3, 600].map((seconds) =>
    uncertainPayment({ at: ago(seconds), requestId: `id-${seconds}`, orderId: `order-${seconds}` }),
  );
  const server = uncertainPayment({
    environment: 'sandbox',
    outcome: 'answered',
    login: 'beta',
    orderId: null,
  });
  const { well, findings } = calmStatus({ uncertainPayments: [server, ...payments] });
  expect(well).toBe(false);
  expect(findings).toMatchObject([
    {
      code: 'outcome-unknown',
      summary: '1 payment of sandbox in the last hour answered with a server error',
      login: 'beta',
    },
    {
      severity: 'bad',
      code: 'outcome-unknown',
      summary: '2 payments of production in the last hour sent without a complete response',
      advice: expect.stringMatching(/^No failure for 3 s\. Each may have been processed\. Query/),
      login: 'acme',
      payments: [
        { at: ago(3), requestId: 'id-3', orderId: 'order-3', caller: 'checkout', operation: 'transfer' },
        { at: ago(600), requestId: 'id-600', orderId: 'order-600', login: 'acme' },
      ],
    },
  ]);
  const page = pageOf({ uncertainPayments: [server, ...payments] });
  expect(page).toContain('14:03:04.000Z transfer order order-3 of checkout, login acme, request id-3');
  expect(page).toContain('transfer order - of checkout, login beta');
});

it('responses about another order are bad, about another amount a warning, one finding for each environment', () => {
  const one = {
    at: ago(3),
    requestId: 'id-3',
    environment: 'production',
    operation: 'transfer',
    login: 'acme',
    field: 'order-id' as const,
  };
  const { well, findings } = calmStatus({ orderMismatches: [one, { ...one, requestId: 'id-9' }] });
  expect(well).toBe(false);
  expect(findings).toMatchObject([
    {
      severity: 'bad',
      code: 'order-mismatch',
      environment: 'production',
      summary: '2 responses of production in the last hour about another order than the request',
      advice: expect.stringMatching(/^The last one: order-id of transfer, request id-3\. Query the status/),
    },
  ]);
  expect(calmStatus({ orderMismatches: [{ ...one, field: 'amount' }] }).findings).toMatchObject([
    {
      severity: 'warn',
      summary: '1 response of production in the last hour about another amount or currency than the request',
    },
  ]);
});

it('a thousand payments whose outcome is not known may be more', () => {
  const payment = uncertainPayment();
  const other = { ...payment, environment: 'sandbox' };
  const adviceFor = (length: number): string | undefined =>
    found({ uncertainPayments: [...Array.from({ length }, () => payment), other] })[0];
  expect(adviceFor(999)).not.toContain('There may be more');
  expect(adviceFor(1_000)).toMatch(/There may be more: the log has all of them\./);
});

describe('401 or 403 for every login', () => {
  const environment = (logins: { accepted: number; rejected: number }, fields: object = {}) => ({
    environments: [
      environmentStatus({
        rejectedShare: 1,
        rejectedRequests: 9,
        logins: { ...logins, rejectedNames: [] },
        ...fields,
      }),
    ],
  });

  it('is not a key: the gateway blocks the instance', () => {
    const blocked = environment({ accepted: 0, rejected: 2 });
    expect(found(blocked)).toEqual([
      expect.stringMatching(/^bad gateway-blocks: .* 401 or 403 to every login, 2 .*Do not store new keys\./),
    ]);
  });

  it('is found beside another failure', () => {
    const failures = [{ cause: 'gateway-timeout', lastAt: ago(1), count: 1, share: 0.3, detail: null }];
    const codes = found(environment({ accepted: 0, rejected: 2 }, { failures })).map(
      (one) => one.split(':')[0],
    );
    expect(codes).toEqual(
      expect.arrayContaining(['bad gateway-blocks', expect.stringContaining('gateway-timeout')]),
    );
  });

  it('is no key while a clock is off: that is the one finding', () => {
    const clock = environment({ accepted: 0, rejected: 5 }, { clockSkew: 60 });
    expect(found(clock)).toEqual([
      expect.stringMatching(/^bad clock-skew: .* 100% of responses are 401 or 403, .* not because of a key/),
    ]);
    const few = environment({ accepted: 5, rejected: 1 }, { clockSkew: -60, rejectedShare: 0.1 });
    expect(found(few)).toEqual([expect.stringMatching(/^warn clock-skew: .* 10% of responses/)]);
  });

  it('may be a key with one login, or if another one is accepted', () => {
    for (const one of [
      environment({ accepted: 0, rejected: 1 }),
      environment({ accepted: 1, rejected: 5 }),
    ]) {
      expect(found(one)).toEqual([expect.stringMatching(/^bad gateway-rejections: /)]);
    }
  });
});

it('an issuer of JWTs whose keys cannot be fetched is found, with the cause', () => {
  const issuer = (available: boolean, problem: string | null) =>
    found({ jwtIssuers: [{ name: 'corp', available, problem }] });
  expect(issuer(true, null)).toEqual([]);
  expect(issuer(true, 'timeout')).toEqual([
    expect.stringMatching(/^warn jwt-keys-stale: .* corp cannot be fetched: timeout\. The previous ones/),
  ]);
  expect(issuer(false, 'timeout')).toEqual([
    expect.stringMatching(/^bad jwt-keys-stale: .*: timeout\. Callers with its tokens are rejected/),
  ]);
  expect(issuer(false, null)).toEqual([expect.stringMatching(/ cannot be fetched: not tried yet\. /)]);
});

it('an audit trail that cannot be written is bad only if it is required', () => {
  const audit = { up: false, problem: 'ENOSPC' };
  expect(found({ audit })).toEqual([
    expect.stringMatching(/^warn audit-unavailable: Audit records cannot be written: ENOSPC\. They wait/),
  ]);
  expect(found({ audit, health: { ready: false, reasons: ['audit-unavailable'], warnings: [] } })).toEqual([
    expect.stringMatching(/^bad audit-unavailable: .*ENOSPC\. Nothing is sent/),
  ]);
});

it('a key that is missing in the key source, while an older version signs, is found', () => {
  expect(found({ keys: { total: 1, list: [keyStatus({ missingSince: ago(60) })] } })).toEqual([
    expect.stringMatching(
      /^warn key-missing: Control key of acme in production: missing in the key source since 14:02:07\. Version 3 still signs, until `keys\.rotationGracePeriod`.*Store it/,
    ),
  ]);
});
