import type { FailureCause, KeyStatus, StatusFacts, UncertainPayment } from '../facts.ts';
import { counted, percent, secondsBetween, since, span } from '../format.ts';
import { failing, type Severity } from '../thresholds.ts';

export type Environment = StatusFacts['environments'][number];

/** Something that operators have to know of: a finding of the status, an alert, or both. */
export interface Condition {
  /** Of its findings; absent: it depends. */
  readonly severity?: Severity;
  /** What it is. */
  readonly when: string;
  /** There is a finding while this says something. */
  readonly find?: Check;
  /** What to do about it. */
  readonly todo: string;
  readonly alert?: `Countersign${string}`;
  /** One of those that the chart has without `prometheusRule.allAlerts`. */
  readonly core?: true;
  /** Of the alert. `<name>` is a label, `<value|function>` the value of the expression. */
  readonly title?: string;
  /** PromQL of what needs action now. `$name` is a threshold. */
  readonly page?: string;
  /** PromQL of what needs action in working hours. */
  readonly ticket?: string;
  readonly for?: string;
  readonly keepFiringFor?: string;
  /** Heading in deploy/runbook.md; unless given, the name of the alert. */
  readonly section?: string;
  /** Causes of failed requests to which the section applies. */
  readonly causes?: readonly FailureCause[];
}

export type Conditions = Readonly<Record<string, Condition>>;
export const checkOnline = '`countersign check --online --config FILE` says what fails.';

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
  readonly caller?: string | null;
  readonly payments?: readonly UncertainPayment[];
}

/** What is found: nothing, one, or of each environment, key or caller what there is. */
export type Check = (facts: StatusFacts) => Found | undefined | readonly (Found | undefined)[];

/** `: connection refused`; empty without a problem. */
export function because(problem: string | null | undefined): string {
  return typeof problem === 'string' ? `: ${problem.replace(/\.$/, '')}` : '';
}

/** Within these seconds is now. */
const presentSeconds = 5;

/** `No failure for 8 s.`, once it is over: the finding goes within a minute. @param last time of the last failure */
export function quiet(at: string, last: string): string {
  const seconds = secondsBetween(last, at);
  return seconds < presentSeconds ? '' : `No failure for ${span(seconds)}.`;
}

/** That it began with the start or with a configuration, if it did within a minute. @param first time of the first failure */
export function began({ at, config: { loadedAt }, process }: StatusFacts, first = ''): string {
  const after = secondsBetween(loadedAt, first);
  if (!(after >= 0 && after < 60)) return '';
  const isStart = secondsBetween(process.startedAt, loadedAt) < presentSeconds;
  return `It began ${span(after)} after the ${isStart ? 'start' : 'configuration was loaded'}, ${since(at, loadedAt)} ago.`;
}

/** What happened, in words that follow the name of the environment; what to do, if the condition does not say it. */
type Text = (detail: string) => readonly [what: string, todo?: string | undefined];
type Texts = Partial<Record<FailureCause, string | Text>>;

/** Requests of the last minute that failed for one of these causes, together with what else is found. */
export function failures(texts: Texts, more: Check = () => []) {
  const causes = Object.entries(texts);
  const find: Check = (facts) => [
    ...[more(facts)].flat(),
    ...causes.flatMap(([cause, text]) => facts.environments.map((one) => failed(cause, text, one, facts))),
  ];
  return { causes: Object.keys(texts).filter((one): one is FailureCause => one in texts), find };
}

function failed(
  cause: string,
  text: string | Text,
  { name: environment, allFail, failures: list }: Environment,
  facts: StatusFacts,
): Found | undefined {
  const one = list.find((failure) => failure.cause === cause);
  // The finding about the key says why these requests fail.
  const isKnown = (key: KeyStatus) =>
    key.environment === environment && key.signingVersion === null && key.missingSince === null;
  if (one === undefined || (cause === 'key-unusable' && facts.keys.list.some(isKnown))) return undefined;
  const { detail, count, operation, login, share, lastAt } = one;
  const about = { environment, login, caller: cause === 'overloaded' ? one.caller : null };
  const [what, todo] =
    typeof text === 'string' ? [text + (detail === null ? '' : ` (${detail})`)] : text(detail ?? '');
  const whose = about.caller ?? login;
  const requests = `${counted(count, `${operation ?? ''} request`.trim())}${whose === null ? '' : ` of ${whose}`}`;
  const isNow = allFail && secondsBetween(lastAt, facts.at) < presentSeconds;
  const summary = `${environment}: ${what}; ${requests} failed in the last minute, ${isNow ? 'now every one fails' : `${percent(share)} of all`}`;
  const state = [began(facts, one.since), quiet(facts.at, lastAt)];
  return { severity: isNow ? 'bad' : failing(share), summary, state, todo, ...about };
}
