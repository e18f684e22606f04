import type { ReadinessCode } from '../readiness.ts';
import type { FailureCause, KeyStatus, PaymentToQuery, StatusFacts, UncertainPayment } from './facts.ts';
import { counted, percent, secondsBetween, since, span } from './format.ts';
import {
  clockDifference,
  failing,
  isBlocked,
  lifetime,
  maxUncertainPayments,
  rejections,
  type Severity,
  saturation,
  silent,
} from './thresholds.ts';

type Environment = StatusFacts['environments'][number];

/** What a status says about a condition that holds. */
export interface Found {
  /** One of the condition; the first one unless given. */
  readonly severity?: Severity;
  /** What happened, to which environment and login. */
  readonly summary: string;
  /** Sentences before what to do; empty ones are left out. */
  readonly state?: readonly string[];
  /** In place of what the condition says is to do. */
  readonly todo?: string | undefined;
  readonly environment?: string | null;
  readonly login?: string | null;
  readonly caller?: string;
  readonly payments?: readonly PaymentToQuery[];
}

export type Check = (facts: StatusFacts) => Found[];

/** `No failure for 8 s.`, once it is over: the finding goes within a minute. @param last time of the last failure */
function quiet(at: string, last: string): string {
  const seconds = secondsBetween(last, at);
  return seconds < 2 ? '' : `No failure for ${span(seconds)}.`;
}

/** One for each environment. */
export function uncertainPayments({ at, uncertainPayments: list }: StatusFacts): Found[] {
  return [...Map.groupBy(list, ({ environment }) => environment)].flatMap(([environment, payments]) => {
    const [newest] = payments;
    if (newest === undefined) return [];
    const [login = null, ...others] = new Set(payments.map((one) => one.login));
    const answered = payments.filter(({ outcome }) => outcome === 'answered').length;
    const how = [
      ...(answered < payments.length ? ['sent without a complete response'] : []),
      ...(answered > 0 ? ['answered with a server error'] : []),
    ];
    const more = payments.length < maxUncertainPayments ? '' : 'There may be more: the log has all of them.';
    return [
      {
        summary: `${counted(payments.length, 'payment')} of ${environment ?? 'an unknown environment'} in the last hour ${how.join(', or ')}`,
        state: [quiet(at, newest.at), 'Each may have been processed.', more],
        environment,
        login: others.length === 0 ? login : null,
        payments: payments.map(whatToQuery),
      },
    ];
  });
}

/** One for each environment. */
export function orderMismatches({ orderMismatches: list }: StatusFacts): Found[] {
  return [...Map.groupBy(list, ({ environment }) => environment)].flatMap(([environment, responses]) => {
    const [newest] = responses;
    if (newest === undefined) return [];
    const { operation, requestId, field } = newest;
    const severity = responses.some((response) => response.field === 'order-id') ? 'bad' : 'warn';
    const about = severity === 'bad' ? 'order' : 'amount or currency';
    const summary = `${counted(responses.length, 'response')} of ${environment} in the last hour about another ${about} than the request`;
    const state = [`The last one: ${field} of ${operation}, request ${requestId}.`];
    return [{ severity, summary, state, environment }];
  });
}

function whatToQuery(payment: UncertainPayment): PaymentToQuery {
  const { at, requestId, caller, operation, login, orderId, statusPath } = payment;
  return { at, requestId, caller, operation, login, orderId, statusPath };
}

/** What makes an instance unready, or is a warning of its readiness. */
export function unready(code: ReadinessCode, summary: string): Check {
  return ({ health: { reasons, warnings } }) =>
    [...reasons, ...warnings].includes(code) ? [{ summary }] : [];
}

export function unwrittenAudit({ health: { reasons }, audit }: StatusFacts): Found[] {
  const required = reasons.includes('audit-unavailable');
  if (!required && audit?.up !== false) return [];
  const cause = typeof audit?.problem === 'string' ? `: ${audit.problem}` : '';
  const effect = required
    ? 'Nothing is sent without them.'
    : 'They wait in memory, and are lost when it is full.';
  const severity = required ? 'bad' : 'warn';
  return [{ severity, summary: `Audit records cannot be written${cause}`, state: [effect] }];
}

export function unclaimed({ claims }: StatusFacts): Found[] {
  if (claims?.up !== false) return [];
  const cause = claims.problem === null ? '' : `: ${claims.problem}`;
  return [{ summary: `Order IDs cannot be claimed${cause}`, state: ['No payment is sent.'] }];
}

/** @param available whether the previous keys are still used */
export function jwtKeys(available: boolean): Check {
  return ({ jwtIssuers }) =>
    jwtIssuers
      .filter((one) => one.available === available && !(available && one.problem === null))
      .map(({ name, problem }) => ({
        summary: `The keys of the JWT issuer ${name} cannot be fetched: ${problem ?? 'not tried yet'}`,
        state: [
          available
            ? 'The previous ones are used until `maxStale` of the issuer has passed.'
            : 'Callers with its tokens are rejected.',
        ],
      }));
}

function lastsSince({ at, keySource: { since: from, problem } }: StatusFacts): string {
  const lasts = from === null ? '' : ` for ${since(at, from)}`;
  return `${lasts}${problem === null ? '' : `: ${problem.replace(/\.$/, '')}`}`;
}

function hasCachedKeys({ keys: { total, list } }: StatusFacts): boolean {
  return total > list.filter(({ versions }) => versions.length === 0).length;
}

export function sourceDown(facts: StatusFacts): Found[] {
  const { type, state } = facts.keySource;
  if (state !== 'down') return [];
  const summary = `${sourceName(type)} unavailable${lastsSince(facts)}`;
  if (hasCachedKeys(facts)) return [{ summary, state: ['Cached keys are still used.'] }];
  const none = 'No key is cached, so requests that need one fail.';
  return [{ summary, state: [none], todo: 'Repair it; no restart is needed.' }];
}

export function deniedKeys(facts: StatusFacts): Found[] {
  const { type, state, deniedLogins, deniedLogin } = facts.keySource;
  if (state !== 'denied') return [];
  const effect = hasCachedKeys(facts)
    ? 'Cached keys sign until `keys.cache.staleIfError` has passed; requests of other logins that it denies fail.'
    : 'No key is cached, so requests of the logins that it denies fail.';
  const summary = `${sourceName(type)} denies reading the keys of ${such(deniedLogin, deniedLogins)}${lastsSince(facts)}`;
  return [{ summary, state: [effect], ...only(deniedLogin, deniedLogins) }];
}

export function unknownLogins({ keySource }: StatusFacts): Found[] {
  const { type, loginsNotFound: count, loginNotFound: one } = keySource;
  if (count === 0) return [];
  const summary = `${sourceName(type)} does not know ${such(one, count)} whose cached keys are used`;
  return [{ severity: count > 1 ? 'bad' : 'warn', summary, ...only(one, count) }];
}

/** `login acme in sandbox`, or `3 logins, such as acme in sandbox,`. @param ref as `sandbox/acme` */
function such(ref: string | null, count: number): string {
  const [environment, login] = ref?.split('/') ?? [];
  if (login === undefined) return counted(count, 'login');
  const name = `${login} in ${environment}`;
  return count === 1 ? `login ${name}` : `${counted(count, 'login')}, such as ${name},`;
}

/** The subject of a finding about one login. */
function only(ref: string | null, count: number): Pick<Found, 'environment' | 'login'> {
  const [environment = null, login = null] = count === 1 ? (ref?.split('/') ?? []) : [];
  return { environment, login };
}

export function expiredToken({ at, keySource: { tokenExpiresAt } }: StatusFacts): Found[] {
  if (tokenExpiresAt === null || secondsBetween(at, tokenExpiresAt) > 0) return [];
  return [{ summary: 'The Vault token has expired' }];
}

export function sourceName(type: StatusFacts['keySource']['type']): string {
  return type === 'vault' ? 'Vault' : 'Key directory';
}

/** What happened, in words that follow the name of the environment; what to do, if the condition does not say it. */
type Text = readonly [what: string, todo?: string];
type Texts = Partial<Record<FailureCause, Text | ((detail: string) => Text)>>;

/** Requests of the last minute that failed for one of these causes, together with what else is found. */
export function failures(texts: Texts, more: Check = () => []) {
  const entries = Object.entries(texts);
  const find: Check = (facts) => [
    ...more(facts),
    ...facts.environments.flatMap((one) =>
      entries.flatMap(([cause, text]) => failed(cause, text, one, facts)),
    ),
  ];
  return { causes: Object.keys(texts), find };
}

function failed(
  cause: string,
  text: Text | ((detail: string) => Text),
  { name: environment, allFail, failures: list }: Environment,
  facts: StatusFacts,
): Found[] {
  const known = facts.keys.list.some((key) => key.environment === environment && isKnownToFail(key, cause));
  return list.flatMap((one) => {
    if (one.cause !== cause || known) return [];
    const detail = one.detail ?? '';
    const about = detail === '' ? '' : ` (${detail})`;
    const [what, todo] = typeof text === 'function' ? text(detail) : [`${text[0]}${about}`, text[1]];
    const { count, login } = one;
    const requests = `${counted(count, 'request')}${login === null ? '' : ` of ${login}`}`;
    const summary = `${environment}: ${what}; ${requests} failed in the last minute, ${allFail ? 'now every one fails' : `${percent(one.share)} of all`}`;
    const state = [quiet(facts.at, one.lastAt)];
    return [{ severity: allFail ? 'bad' : failing(one.share), summary, state, todo, environment, login }];
  });
}

/** The finding about the key says why these requests fail. */
function isKnownToFail({ missingSince, signingVersion }: KeyStatus, cause: string): boolean {
  if (signingVersion !== null) return false;
  return cause === (missingSince === null ? 'key-unusable' : 'key-missing');
}

/** Why there was no connection, in words that follow "gateway unreachable"; what to do. */
const networkTexts: Readonly<Record<string, readonly [string, string]>> = {
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

export function unreachable(detail: string): Text {
  const [why, todo] = networkTexts[detail] ?? ['the connection fails', 'The log has the code.'];
  return [`gateway unreachable, ${why}`, `Nothing was sent. ${todo}`];
}

/** @param alert TLS alert of the gateway; empty: none */
export function reset(alert: string): Text {
  if (alert === '') return ['the gateway ends connections before its response is complete'];
  return [
    `the gateway ends connections with a TLS alert: ${alert}`,
    'Check `certFile` and `keyFile` of the environment: the gateway may require another client certificate.',
  ];
}

const otherLimits =
  'Or it was `signing.maxQueue` or `proxy.maxBufferedBytes`: `detail` of the 503 says which.';

export function requestLimit({ at, environments }: StatusFacts): Found[] {
  return environments.flatMap((one) => {
    const { name: environment, inFlight, maxInFlight, failures: list } = one;
    const rejected = list.find(({ cause }) => cause === 'overloaded');
    const severity = rejected === undefined ? saturation(one) : 'bad';
    if (severity === 'ok') return [];
    const is = inFlight >= maxInFlight ? 'is at' : rejected ? 'was at' : 'is near';
    const also = rejected ? `, and ${counted(rejected.count, 'request')} got 503 in the last minute` : '';
    const flight = `${inFlight} of ${maxInFlight} requests in flight; beyond the limit callers get 503.`;
    const state = [
      rejected ? quiet(at, rejected.lastAt) : '',
      flight,
      ...(inFlight < maxInFlight && rejected ? [otherLimits] : []),
    ];
    return [{ severity, summary: `${environment} ${is} its limit${also}`, state, environment }];
  });
}

/** Said before the requests fail, which takes as long as `timeouts.request`. */
export function silences({ environments }: StatusFacts): Found[] {
  return environments.flatMap((one) => {
    const severity = silent(one);
    if (severity === 'ok') return [];
    const { name: environment, inFlight, waiting } = one;
    const wait = `${counted(inFlight, 'request')} ${inFlight === 1 ? 'waits' : 'wait'}`;
    const summary = `${environment}: no request has ended for ${span(waiting ?? 0)}, and ${wait}`;
    return [{ severity, summary, environment }];
  });
}

export function gatewayBlocks({ environments }: StatusFacts): Found[] {
  return environments
    .filter((one) => clockDifference(one) === 'ok' && isBlocked(one))
    .map(({ name: environment, logins: { rejected } }) => ({
      summary: `The gateway of ${environment} responds with 401 or 403 to every login, ${rejected} in the last minute`,
      environment,
    }));
}

/** While a clock is off, or every login is rejected, that is the finding. */
export function rejectedRequests(facts: StatusFacts): Found[] {
  return facts.environments.flatMap((one) => {
    const { name: environment, rejectedShare, allFail } = one;
    const severity = rejections(one, facts);
    if (severity === 'ok' || clockDifference(one) !== 'ok' || isBlocked(one)) return [];
    const { rejected, rejectedNames } = one.logins;
    const [login = null] = rejected === 1 ? rejectedNames : [];
    const others = rejected - rejectedNames.length;
    const more = others > 0 ? ` and ${counted(others, 'other login')}` : '';
    const names = rejectedNames.length === 0 ? '' : `, last of ${rejectedNames.join(', ')}${more}`;
    const summary = `${percent(rejectedShare ?? 0)} of responses from ${environment} are 401 or 403${allFail ? ', and now every request fails' : ''}${names}`;
    const todo =
      severity === 'info' ? 'No request failed: it was sent again, signed with another key.' : undefined;
    return [{ severity, summary, todo, environment, login }];
  });
}

export function differentClocks(facts: StatusFacts): Found[] {
  return facts.environments.flatMap((one) => {
    if (clockDifference(one) === 'ok') return [];
    const { name: environment, clockSkew, rejectedShare } = one;
    const rejected = rejections(one, facts);
    const effect =
      rejected === 'ok'
        ? 'The gateway may reject timestamps.'
        : `${percent(rejectedShare ?? 0)} of responses are 401 or 403, probably for that reason and not because of a key.`;
    const summary = `The clock of the gateway of ${environment} is ${span(Math.abs(clockSkew ?? 0))} ${(clockSkew ?? 0) > 0 ? 'ahead of' : 'behind'} that of this machine`;
    return [{ severity: rejected === 'bad' ? 'bad' : 'warn', summary, state: [effect], environment }];
  });
}

export function expiringCertificates({ at, certificates }: StatusFacts): Found[] {
  return certificates.flatMap((one) => {
    const { severity } = lifetime(at, one);
    if (severity === 'ok') return [];
    const { name, environment, until } = one;
    const seconds = secondsBetween(at, until);
    const when = seconds > 0 ? `expires in ${span(seconds)}` : 'has expired';
    return [{ severity, summary: `Certificate ${name}${ofEnvironment(environment)} ${when}`, environment }];
  });
}

function ofEnvironment(environment: string | null): string {
  return environment === null ? '' : ` of ${environment}`;
}

/** One for the files of a port or a server, however many certificates are in them. */
export function unusableCertificateFiles({ certificates }: StatusFacts): Found[] {
  return [...Map.groupBy(certificates, ({ problem }) => problem)].flatMap(([problem, [first]]) => {
    if (problem === null || first === undefined) return [];
    const { name, environment } = first;
    const summary = `New certificate files of ${name}${ofEnvironment(environment)} cannot be used: ${problem}`;
    return [{ summary, environment }];
  });
}

/** For a minute after the last request that was too much. */
export function limitedCallers({ at, callers }: StatusFacts): Found[] {
  return callers.flatMap(({ name: caller, limited, limitedAt }) => {
    if (limitedAt === null || secondsBetween(limitedAt, at) >= 60) return [];
    const summary = `${caller} sends more requests at a time than its limit allows: ${counted(limited, 'request')} got 429 since the start, the last one ${since(at, limitedAt)} ago`;
    return [{ summary, caller }];
  });
}

/** One for all callers: the remedy is the same. */
export function dryRuns({ callers }: StatusFacts): Found[] {
  const [first, ...others] = callers.filter(({ mode }) => mode === 'dry-run');
  if (first === undefined) return [];
  const more = others.length === 0 ? '' : ` and ${counted(others.length, 'other caller')}`;
  return [
    { summary: `Every request of ${first.name}${more} is let through: mode is dry-run`, caller: first.name },
  ];
}
