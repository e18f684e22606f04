import type { ReadinessCode } from '../readiness.ts';
import { type FindingCode, findingCodes, type SeverityOf, severities } from './finding-codes.ts';
import { counted, percent, secondsBetween, since, span } from './format.ts';
import { keyProgress, originOf } from './key-texts.ts';
import { maxUncertainPayments } from './recorder.ts';
import { sectionOf } from './runbook-sections.ts';
import type { Finding, KeyStatus, Status, StatusFacts, UncertainPayment } from './schema.ts';
import {
  clockDifference,
  failing,
  isBlocked,
  lifetime,
  rejections,
  saturation,
  silent,
} from './thresholds.ts';

type Environment = Status['environments'][number];
type RecentFailures = Environment['failures'][number];
type Subject = Partial<Pick<Finding, 'environment' | 'login' | 'caller' | 'payments' | 'runbookSection'>>;

/** A rule: what it finds in a status. To add one, add its codes to finding-codes.ts. */
type Rule = (facts: StatusFacts) => Finding[];

const rules: readonly Rule[] = [
  uncertainPayments,
  health,
  audit,
  jwtIssuers,
  keySource,
  environments,
  keys,
  staleKeys,
  certificates,
  certificateFiles,
  callerLimits,
  dryRuns,
  configuration,
];

/** The status of an instance: what is known, and what follows from it. */
export function withFindings(facts: StatusFacts): Status {
  const found = rules.flatMap((rule) => rule(facts));
  const findings = severities.flatMap((severity) => found.filter((one) => one.severity === severity));
  return { ...facts, well: !findings.some(({ severity }) => severity === 'bad'), findings };
}

function finding<C extends FindingCode>(
  code: C,
  severity: SeverityOf<C>,
  summary: string,
  advice: string,
  { environment = null, login = null, caller = null, payments = [], ...subject }: Subject = {},
): Finding {
  const { runbookSection = findingCodes[code].runbookSection } = subject;
  return { severity, code, environment, login, caller, summary, advice, runbookSection, payments };
}

/** `No failure for 8 s. `, once it is over: the finding goes within a minute. @param last time of the last failure */
function quiet(at: string, last: string): string {
  const seconds = secondsBetween(last, at);
  return seconds < 2 ? '' : `No failure for ${span(seconds)}. `;
}

/** One for each environment, and for each way in which the outcome is uncertain. */
function uncertainPayments({ at, uncertainPayments: list }: StatusFacts): Finding[] {
  const kinds = [
    ['outcome-unknown', 'sent without a complete response', (outcome: string) => outcome !== 'answered'],
    ['payment-server-error', 'answered with a server error', (outcome: string) => outcome === 'answered'],
  ] as const;
  const environments = [...new Set(list.map(({ environment }) => environment))];
  return environments.flatMap((environment) => {
    const all = list.filter((one) => one.environment === environment);
    const more = all.length < maxUncertainPayments ? '' : ' There may be more: the log has all of them.';
    return kinds.flatMap(([code, what, isOfKind]) => {
      const payments = all.filter(({ outcome }) => isOfKind(outcome)).map(whatToQuery);
      const [newest] = payments;
      if (newest === undefined) return [];
      const many = counted(payments.length, 'payment');
      const summary = `${many} of ${environment ?? 'an unknown environment'} in the last hour ${what}`;
      const advice = `${quiet(at, newest.at)}Each may have been processed. Query the order status of each, and do not send it again before that.${more}`;
      const [login = null, ...others] = new Set(payments.map((one) => one.login));
      const about = { environment, login: others.length === 0 ? login : null, payments };
      return [finding(code, 'bad', summary, advice, about)];
    });
  });
}

function whatToQuery(payment: UncertainPayment): Finding['payments'][number] {
  const { at, requestId, caller, operation, login, orderId } = payment;
  return { at, requestId, caller, operation, login, orderId };
}

function health({ health: { reasons, warnings } }: StatusFacts): Finding[] {
  return [...reasons, ...warnings].flatMap((code) => {
    const text = readiness[code];
    return text === undefined ? [] : [finding(code, findingCodes[code].severities[0], ...text)];
  });
}

type Text = readonly [summary: string, advice: string];

const fullOutput =
  'Requests are processed. Check where standard output goes: a full disk, or a log collector that has stopped.';

/** The other codes have their own rules, which know more. */
const readiness: Readonly<Partial<Record<ReadinessCode, Text>>> = {
  draining: ['Shutting down', 'Requests in flight are finished; new ones belong to another instance.'],
  'key-source-never-reached': [
    'No keys yet: the key source has not responded since the start',
    'Check its address and the login to it with `countersign check --online`.',
  ],
  'log-lines-dropped': ['Log lines were dropped, because standard output did not accept them', fullOutput],
  'log-stalled': ['The log cannot be written, because standard output accepts no lines', fullOutput],
};

function audit({ health: { reasons }, audit: state }: StatusFacts): Finding[] {
  const required = reasons.includes('audit-unavailable');
  if (!required && state?.up !== false) return [];
  const cause = typeof state?.problem === 'string' ? `: ${state.problem}` : '';
  const effect = required
    ? 'Nothing is sent without them.'
    : 'They wait in memory, and are lost when it is full.';
  const advice = `${effect} Check space and permissions of the audit folder; no restart is needed.`;
  const severity = required ? 'bad' : 'warn';
  return [finding('audit-unavailable', severity, `Audit records cannot be written${cause}`, advice)];
}

function jwtIssuers({ jwtIssuers: list }: StatusFacts): Finding[] {
  return list.flatMap(({ name, available, problem }) => {
    if (available && problem === null) return [];
    const summary = `The keys of the JWT issuer ${name} cannot be fetched: ${problem ?? 'not tried yet'}`;
    const effect = available
      ? 'The previous ones are used until `maxStale` of the issuer has passed.'
      : 'Callers with its tokens are rejected.';
    const advice = `${effect} \`countersign check --online\` fetches them and says what fails.`;
    return [
      available
        ? finding('jwt-keys-stale', 'warn', summary, advice)
        : finding('jwt-keys-unavailable', 'bad', summary, advice),
    ];
  });
}

function keySource({ at, keySource: source, keys: { total, list } }: StatusFacts): Finding[] {
  const { type, state, since, deniedLogins, deniedLogin, problem, tokenExpiresAt } = source;
  const { loginsNotFound, loginNotFound } = source;
  const found: Finding[] = [];
  const name = sourceName(type);
  const lasts = since === null ? '' : ` for ${span(Math.max(0, secondsBetween(since, at)))}`;
  const cause = problem === null ? '' : `: ${problem.replace(/\.$/, '')}`;
  const hasCachedKeys = total > list.filter(({ versions }) => versions.length === 0).length;
  if (state === 'down') {
    const advice = hasCachedKeys
      ? 'Cached keys are still used. Repair it, and do not restart: the cached keys would be lost.'
      : 'No key is cached, so requests that need one fail. Repair it; no restart is needed.';
    found.push(finding('key-source-down', 'bad', `${name} unavailable${lasts}${cause}`, advice));
  }
  if (state === 'denied') {
    const summary = `${name} denies reading the keys of ${such(deniedLogin, deniedLogins)}${lasts}${cause}`;
    const effect = hasCachedKeys
      ? 'Cached keys sign until `keys.cache.staleIfError` has passed; requests of other logins that it denies fail.'
      : 'No key is cached, so requests of the logins that it denies fail.';
    const advice = `${effect} \`countersign check --online\` says which path may not be read. Permit it; no restart is needed.`;
    found.push(finding('key-source-denied', 'bad', summary, advice, only(deniedLogin, deniedLogins)));
  }
  if (loginsNotFound > 0) {
    const summary = `${name} does not know ${such(loginNotFound, loginsNotFound)} whose cached keys are used`;
    const advice =
      'They sign until `keys.cache.staleIfError` has passed; a restart would lose them. Was the store moved, re-created or restored? To stop a login, delete all its versions.';
    const severity = loginsNotFound > 1 ? 'bad' : 'warn';
    found.push(finding('logins-not-found', severity, summary, advice, only(loginNotFound, loginsNotFound)));
  }
  if (tokenExpiresAt !== null && secondsBetween(at, tokenExpiresAt) <= 0) {
    const advice = 'Keys cannot be read until the login to Vault succeeds again.';
    found.push(finding('vault-token-expired', 'warn', 'The Vault token has expired', advice));
  }
  return found;
}

/** `login acme in sandbox`, or `3 logins, such as acme in sandbox,`. @param ref as `sandbox/acme` */
function such(ref: string | null, count: number): string {
  const [environment, login] = ref?.split('/') ?? [];
  if (login === undefined) return counted(count, 'login');
  const name = `${login} in ${environment}`;
  return count === 1 ? `login ${name}` : `${counted(count, 'login')}, such as ${name},`;
}

/** The subject of a finding about one login. */
function only(ref: string | null, count: number): Subject {
  const [environment = null, login = null] = count === 1 ? (ref?.split('/') ?? []) : [];
  return { environment, login };
}

export function sourceName(type: Status['keySource']['type']): string {
  return type === 'vault' ? 'Vault' : 'Key directory';
}

function environments(facts: StatusFacts): Finding[] {
  return facts.environments.flatMap((one) => [
    ...one.failures.flatMap((failures) => failed(failures, one, facts)),
    ...silences(one),
    ...limit(one, facts),
    ...gatewayRejections(one, facts),
    ...clocks(one, facts),
  ]);
}

/** Why there was no connection, in words that follow "gateway unreachable"; what to do. */
const networkTexts: Readonly<Record<string, Text>> = {
  refused: ['connection refused', 'Is it running, and is `baseUrl` its address?'],
  dns: ['its host name cannot be resolved (DNS)', 'Check `baseUrl`, and DNS on this host.'],
  tls: ['the TLS handshake fails', 'Check the certificate of the gateway, and `caFile` of the environment.'],
  timeout: ['no connection in time', 'Check firewalls and network policies on the way.'],
  'proxy-unreachable': [
    'the egress proxy cannot be reached',
    'Is it running, and is `egressProxy.url` its address?',
  ],
  'proxy-timeout': ['the egress proxy makes no tunnel in time', 'Check the egress proxy and its load.'],
  'proxy-tls': [
    'the TLS handshake with the egress proxy fails',
    'Check the certificate of the egress proxy, and `egressProxy.caFile`.',
  ],
  'proxy-credentials': [
    'the egress proxy does not accept the credentials',
    'Check `egressProxy.username` and its password, which is read again when its file is replaced.',
  ],
  'proxy-denied': [
    'the egress proxy denies the tunnel',
    'Allow CONNECT from this host to the host and port of `baseUrl` there.',
  ],
  'proxy-failed': [
    'the egress proxy cannot reach it',
    'The log of the egress proxy has the reason: DNS, a firewall behind it, or the gateway.',
  ],
  'proxy-invalid': [
    'the egress proxy sends an invalid response',
    'Is `egressProxy.url` the address of an HTTP proxy?',
  ],
};

/** What happened, in words that follow the name of the environment; what to do. */
type FailureText = readonly [code: FailureCode, ...Text];

type FailureCode = Extract<
  FindingCode,
  | `gateway-${'unreachable' | 'timeout' | 'response-incomplete' | 'server-error'}`
  | 'requests-failing'
  | 'signing-unavailable'
>;

/** By cause of the failed requests. */
const failureTexts: Readonly<Record<string, FailureText>> = {
  'gateway-timeout': [
    'gateway-timeout',
    'the gateway does not respond in time',
    'The limit is `timeouts.request`. Ask the support of the gateway: nothing in Countersign makes it faster.',
  ],
  'gateway-reset': [
    'gateway-response-incomplete',
    'the gateway ends connections before its response is complete',
    'Look for a proxy or load balancer on the way, and ask the support of the gateway.',
  ],
  'gateway-reply-invalid': [
    'gateway-response-incomplete',
    'the gateway sends responses that are not valid HTTP, or of payments without a length',
    'Look for a proxy or load balancer on the way, and ask the support of the gateway.',
  ],
  'gateway-status': [
    'gateway-server-error',
    'the gateway responds with server errors',
    'Ask the support of the gateway, with the serial numbers of the log.',
  ],
  'key-source-unavailable': [
    'requests-failing',
    'keys cannot be read, and none are cached',
    '`countersign check --online` separates login, policy and key problems.',
  ],
  'signing-unavailable': [
    'signing-unavailable',
    'Vault does not sign with the private keys that it holds',
    'Only requests signed with such keys fail; nothing is sent. `countersign check --online` separates login, policy and key problems.',
  ],
  'key-missing': [
    'requests-failing',
    'a login has no key of the required kind',
    'Store it in the key source.',
  ],
  'key-unusable': ['requests-failing', 'a key cannot be used', 'Store a correct key as a new version.'],
};

/** @param detail empty: nothing else is known */
function failureText(cause: string, detail: string): FailureText {
  if (cause === 'gateway-unreachable') {
    const [why, advice] = networkTexts[detail] ?? ['the connection fails', 'The log has the code.'];
    return [cause, `gateway unreachable, ${why}`, `Nothing was sent. ${advice}`];
  }
  if (cause === 'gateway-reset' && detail !== '') {
    const advice =
      'Check `certFile` and `keyFile` of the environment: the gateway may require another client certificate.';
    return [
      'gateway-response-incomplete',
      `the gateway ends connections with a TLS alert: ${detail}`,
      advice,
    ];
  }
  const text = failureTexts[cause] ?? ['requests-failing', cause, 'The log has a line for each.'];
  const [code, what, advice] = text;
  return [code, detail === '' ? what : `${what} (${detail})`, advice];
}

/** Other rules say more about these. */
const elsewhere: ReadonlySet<string> = new Set(['overloaded', 'audit-unavailable', 'shutting-down']);

/** Requests that failed in the last minute, for one cause. */
function failed(
  { cause, detail, login, count, share, lastAt }: RecentFailures,
  { name: environment, allFail }: Environment,
  { at, keys: { list } }: StatusFacts,
): Finding[] {
  const known = list.some((key) => key.environment === environment && isKnownToFail(key, cause));
  if (elsewhere.has(cause) || known) return [];
  const [code, what, advice] = failureText(cause, detail ?? '');
  const requests = `${counted(count, 'request')}${login === null ? '' : ` of ${login}`}`;
  const extent = allFail ? 'now every one fails' : `${percent(share)} of all`;
  const summary = `${environment}: ${what}; ${requests} failed in the last minute, ${extent}`;
  const runbookSection = sectionOf(cause) ?? findingCodes[code].runbookSection;
  const about = { environment, login, runbookSection };
  return [finding(code, allFail ? 'bad' : failing(share), summary, `${quiet(at, lastAt)}${advice}`, about)];
}

/** The finding about the key says why these requests fail. */
function isKnownToFail({ missingSince, signingVersion }: KeyStatus, cause: string): boolean {
  if (signingVersion !== null) return false;
  return cause === (missingSince === null ? 'key-unusable' : 'key-missing');
}

/** Said before the requests fail, which takes as long as `timeouts.request`. */
function silences(one: Environment): Finding[] {
  const severity = silent(one);
  if (severity === 'ok') return [];
  const { name: environment, inFlight, waiting } = one;
  const summary = `${environment}: no request has ended for ${span(waiting ?? 0)}, and ${counted(inFlight, 'request')} ${inFlight === 1 ? 'waits' : 'wait'}`;
  const advice =
    'Either the gateway does not respond, or keys cannot be read; they fail when `timeouts.request` has passed. `countersign check --online` says which.';
  return [finding('gateway-silent', severity, summary, advice, { environment })];
}

function limit(one: Environment, { at }: StatusFacts): Finding[] {
  const { name: environment, inFlight, maxInFlight, failures } = one;
  const rejected = failures.find(({ cause }) => cause === 'overloaded');
  const severity = rejected === undefined ? saturation(one) : 'bad';
  if (severity === 'ok') return [];
  const state = `${environment} ${inFlight >= maxInFlight ? 'is at' : rejected ? 'was at' : 'is near'} its limit`;
  const also = rejected && `, and ${counted(rejected.count, 'request')} got 503 in the last minute`;
  const others =
    inFlight < maxInFlight && rejected
      ? ' Or it was `signing.maxQueue` or `proxy.maxBufferedBytes`: `detail` of the 503 says which.'
      : '';
  const advice = `${rejected ? quiet(at, rejected.lastAt) : ''}${inFlight} of ${maxInFlight} requests in flight; beyond the limit callers get 503. Is the gateway slow? Otherwise add instances or raise \`maxInFlight\`.${others}`;
  return [finding('saturated', severity, `${state}${also ?? ''}`, advice, { environment })];
}

/** While a clock is off, that is the finding. */
function gatewayRejections(one: Environment, facts: StatusFacts): Finding[] {
  const { name: environment, rejectedShare, allFail, logins } = one;
  if (clockDifference(one) !== 'ok') return [];
  if (isBlocked(one)) {
    const summary = `The gateway of ${environment} responds with 401 or 403 to every login, ${logins.rejected} in the last minute`;
    const advice =
      'So it is not a key: the gateway blocks this instance, or `baseUrl` is another environment, or something on the way changes requests. Do not store new keys. Ask the support of the gateway.';
    return [finding('gateway-blocks', 'bad', summary, advice, { environment })];
  }
  const severity = rejections(one, facts);
  if (severity === 'ok') return [];
  const { rejected, rejectedNames } = logins;
  const [login = null] = rejected === 1 ? rejectedNames : [];
  const others = rejected - rejectedNames.length;
  const more = others > 0 ? ` and ${counted(others, 'other login')}` : '';
  const names = rejectedNames.length === 0 ? '' : `, last of ${rejectedNames.join(', ')}${more}`;
  const summary = `${percent(rejectedShare ?? 0)} of responses from ${environment} are 401 or 403${allFail ? ', and now every request fails' : ''}${names}`;
  const advice =
    severity === 'info'
      ? 'No request failed: it was sent again, signed with another key.'
      : 'Compare the fingerprint of the key with what the gateway has: `countersign keys verify`. The causes are under "Failed requests".';
  return [finding('gateway-rejections', severity, summary, advice, { environment, login })];
}

function clocks(one: Environment, facts: StatusFacts): Finding[] {
  if (clockDifference(one) === 'ok') return [];
  const { name: environment, clockSkew, rejectedShare } = one;
  const rejected = rejections(one, facts);
  const effect =
    rejected === 'ok'
      ? 'The gateway may reject timestamps.'
      : `${percent(rejectedShare ?? 0)} of responses are 401 or 403, probably for that reason and not because of a key.`;
  const summary = `The clock of the gateway of ${environment} is ${span(Math.abs(clockSkew ?? 0))} ${(clockSkew ?? 0) > 0 ? 'ahead of' : 'behind'} that of this machine`;
  const advice = `${effect} Either one may be off: check the time synchronization of this machine, and whether other environments and instances show the same; if not, ask the support of the gateway.`;
  return [finding('clock-skew', rejected === 'bad' ? 'bad' : 'warn', summary, advice, { environment })];
}

/** Of other keys in a finding. */
const maxNames = 5;

/** One for each kind of progress, however many keys it concerns. */
function keys(facts: StatusFacts): Finding[] {
  const origin = originOf(facts);
  const all = facts.keys.list.flatMap((key) =>
    keyProgress(key, origin).map((progress) => ({ ...progress, key })),
  );
  const groups = Map.groupBy(all, ({ code, severity }) => `${code} ${severity}`);
  return [...groups.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const { code, severity, title, advice, key } = first;
    const some = others
      .slice(0, maxNames)
      .map((other) => keyName(other.key))
      .join(', ');
    const names = others.length > maxNames ? `such as ${some}` : some;
    const same = others.length === 0 ? '' : `The same for ${counted(others.length, 'other key')}: ${names}. `;
    const summary = `${keyName(key)}: ${title.charAt(0).toLowerCase()}${title.slice(1)}`;
    return [finding(code, severity, summary, `${same}${advice}`, key)];
  });
}

function keyName({ kind, login, environment }: KeyStatus): string {
  return `${kindName(kind)} of ${login} in ${environment}`;
}

/** While the key source is down, denies keys, or does not know all of these logins, that is the finding. */
function staleKeys({ keySource: { state, loginsNotFound }, keys: { list } }: StatusFacts): Finding[] {
  const stale = list.filter(({ staleSince }) => staleSince !== null);
  const logins = new Set(stale.map(({ environment, login }) => `${environment}/${login}`));
  const [first] = stale;
  if (first === undefined || state === 'down' || state === 'denied' || logins.size <= loginsNotFound)
    return [];
  const { environment, login, readProblem } = stale.find((one) => one.readProblem !== null) ?? first;
  const which =
    stale.length === 1
      ? `The key of ${login} in ${environment}`
      : `${counted(stale.length, 'cached key')}, such as of ${login} in ${environment},`;
  const summary = `${which} could not be read again${readProblem === null ? '' : `: ${readProblem}`}`;
  const advice =
    'Cached keys sign until `keys.cache.staleIfError` has passed. `countersign check --online` separates login, policy and key problems.';
  return [finding('keys-stale', 'warn', summary, advice, { environment, login })];
}

export function kindName(kind: KeyStatus['kind']): string {
  return kind === 'control_key' ? 'Control key' : 'RSA key';
}

function certificates({ at, certificates: list }: StatusFacts): Finding[] {
  return list.flatMap((one) => {
    const { severity } = lifetime(at, one);
    if (severity === 'ok') return [];
    const { name, environment, until } = one;
    const seconds = secondsBetween(at, until);
    const where = environment === null ? '' : ` of ${environment}`;
    const when = seconds > 0 ? `expires in ${span(seconds)}` : 'has expired';
    const advice = 'Renew it and replace the file; no restart is needed.';
    const summary = `Certificate ${name}${where} ${when}`;
    return [finding('certificate-expiring', severity, summary, advice, { environment })];
  });
}

/** One for the files of a port or a server, however many certificates are in them. */
function certificateFiles({ certificates: list }: StatusFacts): Finding[] {
  const broken = Map.groupBy(list, ({ problem }) => problem);
  return [...broken].flatMap(([problem, [first]]) => {
    if (problem === null || first === undefined) return [];
    const where = first.environment === null ? '' : ` of ${first.environment}`;
    const summary = `New certificate files of ${first.name}${where} cannot be used: ${problem}`;
    const advice = 'The previous ones are in use. Correct the files; no restart is needed.';
    return [
      finding('certificate-files-unusable', 'warn', summary, advice, { environment: first.environment }),
    ];
  });
}

/** For a minute after the last request that was too much. */
function callerLimits({ at, callers }: StatusFacts): Finding[] {
  return callers.flatMap(({ name: caller, limited, limitedAt }) => {
    const seconds = limitedAt === null ? Number.POSITIVE_INFINITY : secondsBetween(limitedAt, at);
    if (seconds > 60) return [];
    const summary = `${caller} sends more requests at a time than its limit allows: ${counted(limited, 'request')} got 429 since the start, the last one ${since(at, limitedAt ?? at)} ago`;
    const advice =
      'Nothing was sent for these, and other callers are not affected. Does it send more than it should, or is the gateway slow? Otherwise raise `maxInFlight` of the caller.';
    return [finding('caller-limited', 'warn', summary, advice, { caller })];
  });
}

/** One for all callers: the remedy is the same. */
function dryRuns({ callers }: StatusFacts): Finding[] {
  const [first, ...others] = callers.filter(({ mode }) => mode === 'dry-run');
  if (first === undefined) return [];
  const more = others.length === 0 ? '' : ` and ${counted(others.length, 'other caller')}`;
  const summary = `Every request of ${first.name}${more} is let through: mode is dry-run`;
  const advice = 'Set `enforce` when the log has no more requests with the decision `would-deny`.';
  return [finding('caller-dry-run', 'warn', summary, advice, { caller: first.name })];
}

function configuration({ config: { reloadFailed } }: StatusFacts): Finding[] {
  if (!reloadFailed) return [];
  const advice = 'The previous one is in effect. The log says what is wrong, or that a restart is required.';
  return [finding('config-reload-failed', 'warn', 'The configuration was not reloaded', advice)];
}
