import type { FailureCause, KeyStatus, StatusFacts, UncertainPayment } from './facts.ts';
import { counted, percent, secondsBetween, since, span } from './format.ts';
import { failing, type Severity } from './thresholds.ts';

type Environment = StatusFacts['environments'][number];

/** What a status says about a condition that holds. */
export interface Found {
  /** Where it depends. */
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
  readonly payments?: readonly UncertainPayment[];
}

/** What is found: nothing, one, or of each environment, key or caller what there is. */
export type Check = (facts: StatusFacts) => Found | undefined | readonly (Found | undefined)[];

/** `: connection refused`; empty without a problem. */
export function because(problem: string | null | undefined): string {
  return typeof problem === 'string' ? `: ${problem.replace(/\.$/, '')}` : '';
}

/** A failure within these seconds is one that happens now. */
const presentSeconds = 5;

/** `No failure for 8 s.`, once it is over: the finding goes within a minute. @param last time of the last failure */
export function quiet(at: string, last: string): string {
  const seconds = secondsBetween(last, at);
  return seconds < presentSeconds ? '' : `No failure for ${span(seconds)}.`;
}

/** One for each environment. */
export function byEnvironment<T extends { readonly environment: string | null }>(
  list: readonly T[],
  find: (all: T[], first: T, environment: string | null) => Found,
): Found[] {
  return [...Map.groupBy(list, ({ environment }) => environment)].flatMap(([environment, all]) =>
    all[0] === undefined ? [] : [{ ...find(all, all[0], environment), environment }],
  );
}

export function lastsSince({ at, keySource: { since: from, problem } }: StatusFacts): string {
  return `${from === null ? '' : ` for ${since(at, from)}`}${because(problem)}`;
}

/** `login acme in sandbox` and the subject of a finding, or `3 logins, such as acme in sandbox,`. @param ref `sandbox/acme` */
export function loginsOf(count: number, ref: string | null) {
  const [environment, login] = ref?.split('/') ?? [];
  if (environment === undefined || login === undefined) return { words: counted(count, 'login') };
  const name = `${login} in ${environment}`;
  if (count === 1) return { words: `login ${name}`, environment, login };
  return { words: `${counted(count, 'login')}, such as ${name},` };
}

/** What happened, in words that follow the name of the environment; what to do, if the condition does not say it. */
type Text = (detail: string) => readonly [what: string, todo?: string];
type Texts = Partial<Record<FailureCause, string | Text>>;

/** Requests of the last minute that failed for one of these causes, together with what else is found. */
export function failures(texts: Texts, more: Check = () => []) {
  const causes = Object.entries(texts);
  const find: Check = (facts) => [
    ...[more(facts)].flat(),
    ...causes.flatMap(([cause, text]) => facts.environments.map((one) => failed(cause, text, one, facts))),
  ];
  return { causes: Object.keys(texts), find };
}

function failed(
  cause: string,
  text: string | Text,
  { name: environment, allFail, failures: list }: Environment,
  { at, keys }: StatusFacts,
): Found | undefined {
  const one = list.find((failure) => failure.cause === cause);
  // The finding about the key says why these requests fail.
  const isKnown = (key: KeyStatus) =>
    key.environment === environment && key.signingVersion === null && key.missingSince === null;
  if (one === undefined || (cause === 'key-unusable' && keys.list.some(isKnown))) return undefined;
  const { detail, count, login, share, lastAt } = one;
  const about = detail === null ? '' : ` (${detail})`;
  const [what, todo] = typeof text === 'string' ? [`${text}${about}`] : text(detail ?? '');
  const requests = `${counted(count, 'request')}${login === null ? '' : ` of ${login}`}`;
  const isNow = allFail && secondsBetween(lastAt, at) < presentSeconds;
  const summary = `${environment}: ${what}; ${requests} failed in the last minute, ${isNow ? 'now every one fails' : `${percent(share)} of all`}`;
  return {
    severity: isNow ? 'bad' : failing(share),
    summary,
    state: [quiet(at, lastAt)],
    todo,
    environment,
    login,
  };
}

/** Seconds by which two clocks that are right may differ. */
const alikeSeconds = 5;

/** What to do about a clock that is off, if other gateways show whose it is; `undefined`: they do not. */
export function likelierClock(
  { gatewayHost, clockSkew }: Environment,
  environments: readonly Environment[],
): string | undefined {
  const others = environments.filter((one) => one.gatewayHost !== gatewayHost && one.clockSkew !== null);
  const is = (skew: number | null) => (one: Environment) =>
    Math.abs((one.clockSkew ?? 0) - (skew ?? 0)) <= alikeSeconds;
  const right = others.find(is(0));
  if (right !== undefined)
    return `There is no difference to the clock of the gateway of ${right.name}, so this one is likelier off: ask its support.`;
  return others.length > 0 && others.every(is(clockSkew))
    ? 'The gateways of other environments show the same, so the clock of this machine is likelier off: check its time synchronization.'
    : undefined;
}

/** Why there was no connection, in words that follow "gateway unreachable"; what to do. */
const networkTexts: Readonly<Record<string, readonly [string, string]>> = {
  refused: ['connection refused', 'Is it running, and is `baseUrl` its address?'],
  dns: ['its host name cannot be resolved (DNS)', 'Check `baseUrl`, and DNS on this host.'],
  tls: [
    'the TLS handshake fails',
    'Check `caFile` of the environment (without it, the CAs of Node count), and the certificate of the gateway; the log has the code.',
  ],
  timeout: ['no connection in time', 'Check firewalls and network policies on the way.'],
  'proxy-unreachable': ['the egress proxy cannot be reached', 'Does it run at `egressProxy.url`?'],
  'proxy-timeout': ['the egress proxy makes no tunnel in time', 'Check the egress proxy and its load.'],
  'proxy-tls': ['TLS with the egress proxy fails', 'Check its certificate, and `egressProxy.caFile`.'],
  'proxy-credentials': [
    'the egress proxy does not accept the credentials',
    'Check `egressProxy.username` and its password, which is read again when its file is replaced.',
  ],
  'proxy-denied': [
    'the egress proxy denies the tunnel',
    'Allow CONNECT to host and port of `baseUrl` there.',
  ],
  'proxy-failed': [
    'the egress proxy cannot reach it',
    'The log of the egress proxy has the reason: DNS, a firewall behind it, or the gateway.',
  ],
  'proxy-invalid': ['the egress proxy sends an invalid response', 'Is `egressProxy.url` an HTTP proxy?'],
};

export const unreachable: Text = (detail) => {
  const [why, todo] = networkTexts[detail] ?? ['the connection fails', 'The log has the code.'];
  return [`gateway unreachable, ${why}`, `Nothing was sent. ${todo}`];
};

/** @param alert TLS alert of the gateway; empty: none */
export const reset: Text = (alert) => {
  if (alert === '') return ['the gateway ends connections before its response is complete'];
  return [
    `the gateway ends connections with a TLS alert: ${alert}`,
    'Check `certFile` and `keyFile` of the environment: the gateway may require another client certificate.',
  ];
};
