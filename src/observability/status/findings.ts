import type { ReadinessCode } from '../readiness.ts';
import { type FindingCode, findingCodes, type SeverityOf, severities } from './finding-codes.ts';
import { counted, percent, secondsBetween, span } from './format.ts';
import { type KeyProgress, keyProgress, originOf } from './key-progress.ts';
import { clockDifference, lifetime, rejections, saturation } from './limits.ts';
import type { Finding, KeyStatus, Status, StatusFacts } from './schema.ts';

type Environment = Status['environments'][number];
type Subject = Partial<Pick<Finding, 'environment' | 'login' | 'caller'>>;

/** A rule: what it finds in a status. To add one, add its codes to finding-codes.ts. */
type Rule = (facts: StatusFacts) => Finding[];

const rules: readonly Rule[] = [
  health,
  keySource,
  environments,
  keys,
  staleKeys,
  certificates,
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
  { environment = null, login = null, caller = null }: Subject = {},
): Finding {
  const { runbookSection } = findingCodes[code];
  return { severity, code, environment, login, caller, summary, advice, runbookSection };
}

function health({ health: { reasons, warnings } }: StatusFacts): Finding[] {
  const found = (code: ReadinessCode): Finding => {
    const [summary, advice] = readiness[code];
    return finding(code, findingCodes[code].severities[0], summary, advice);
  };
  return [...reasons, ...warnings].map(found);
}

const readiness: Readonly<Record<ReadinessCode, readonly [summary: string, advice: string]>> = {
  draining: ['Shutting down', 'Requests in flight are finished; new ones belong to another instance.'],
  'key-source-never-reached': [
    'No keys yet',
    'The key source has not responded since the start. Check its address and the login to it.',
  ],
  'audit-unavailable': [
    'Audit records cannot be written',
    'Nothing is sent without them. Check space and permissions of the audit file.',
  ],
  'jwt-keys-unavailable': [
    'Keys of a JWT issuer are missing',
    'Callers with its tokens are rejected. Check the key set of each JWT issuer.',
  ],
  'log-lines-dropped': [
    'Log lines were dropped',
    'Requests are processed. Check where standard output goes.',
  ],
  'log-stalled': ['The log cannot be written', 'Requests are processed. Check where standard output goes.'],
};

function keySource({ at, keySource: source }: StatusFacts): Finding[] {
  const { type, up, since, problem, tokenExpiresAt } = source;
  const found: Finding[] = [];
  if (up === false) {
    const lasts = since === null ? '' : ` for ${span(Math.max(0, secondsBetween(since, at)))}`;
    const cause = problem === null ? '' : `: ${problem.replace(/\.$/, '')}`;
    const summary = `${sourceName(type)} unavailable${lasts}${cause}`;
    const advice =
      'Cached keys are still used. Repair it, and do not restart: the cached keys would be lost.';
    found.push(finding('key-source-down', 'bad', summary, advice));
  }
  if (tokenExpiresAt !== null && secondsBetween(at, tokenExpiresAt) <= 0) {
    const advice = 'Keys cannot be read until the login to Vault succeeds again.';
    found.push(finding('vault-token-expired', 'warn', 'The Vault token has expired', advice));
  }
  return found;
}

export function sourceName(type: Status['keySource']['type']): string {
  return type === 'vault' ? 'Vault' : 'Key directory';
}

function environments(facts: StatusFacts): Finding[] {
  return facts.environments.flatMap((one) => [
    ...limit(one),
    ...gatewayRejections(one, facts),
    ...clocks(one),
  ]);
}

function limit(one: Environment): Finding[] {
  const { name: environment, inFlight, maxInFlight } = one;
  const severity = saturation(one);
  if (severity === 'ok') return [];
  const summary = `${environment} is ${severity === 'bad' ? 'at' : 'near'} its limit`;
  const advice = `${inFlight} of ${maxInFlight} requests in flight; beyond the limit callers get 503. Is the gateway slow?`;
  return [finding('saturated', severity, summary, advice, { environment })];
}

function gatewayRejections(one: Environment, facts: StatusFacts): Finding[] {
  const { name: environment, rejectedShare } = one;
  const severity = rejections(one, facts);
  if (severity === 'ok') return [];
  const summary = `${percent(rejectedShare ?? 0)} of responses from ${environment} are 403s`;
  const advice =
    severity === 'info'
      ? 'No request failed: it was sent again, signed with another key.'
      : 'The causes are under "Failed requests".';
  return [finding('gateway-rejections', severity, summary, advice, { environment })];
}

function clocks(one: Environment): Finding[] {
  if (clockDifference(one) === 'ok') return [];
  const { clockSkew } = one;
  const summary = `The clock of ${one.name} is ${span(Math.abs(clockSkew ?? 0))} ${(clockSkew ?? 0) > 0 ? 'ahead of' : 'behind'} this instance`;
  const advice = 'The gateway may reject timestamps. Check the time synchronization of this machine.';
  return [finding('clock-skew', 'warn', summary, advice, { environment: one.name })];
}

/** One for each kind of progress, however many keys it concerns. */
function keys(facts: StatusFacts): Finding[] {
  const groups = new Map<string, { progress: KeyProgress; key: KeyStatus; others: number }>();
  for (const key of facts.keys.list) {
    for (const progress of keyProgress(key, originOf(facts))) {
      const name = `${progress.code} ${progress.severity}`;
      const group = groups.get(name) ?? { progress, key, others: -1 };
      groups.set(name, { ...group, others: group.others + 1 });
    }
  }
  return Array.from(groups.values(), ({ progress, key, others }) => {
    const { environment, login, kind } = key;
    const title = `${progress.title.charAt(0).toLowerCase()}${progress.title.slice(1)}`;
    const same = others === 0 ? '' : `The same for ${counted(others, 'other key')}. `;
    const summary = `${kindName(kind)} of ${login} in ${environment}: ${title}`;
    const about = { environment, login };
    return finding(progress.code, progress.severity, summary, `${same}${progress.advice}`, about);
  });
}

/** While the key source is down, that is the finding. */
function staleKeys({ keySource: { up }, keys: { list } }: StatusFacts): Finding[] {
  const stale = list.filter(({ staleSince }) => staleSince !== null).length;
  if (stale === 0 || up === false) return [];
  const summary = `${counted(stale, 'cached key')} could not be refreshed`;
  const advice = 'They sign until `keys.cache.staleIfError` has passed. The log says why.';
  return [finding('keys-stale', 'warn', summary, advice)];
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
