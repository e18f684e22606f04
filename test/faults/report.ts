import { increment, markdown } from '../support/command.ts';
import { ruleNames, type Violation, wasSignaled } from './check.ts';
import type { RequestRecord } from './ledger.ts';
import type { Run } from './run.ts';

/** How many violations of one kind are printed with their details. */
const shown = 3;

/** The result of a run in Markdown. */
export function report({ requests, processes, violations, actions }: Run): string {
  const counts = new Map<string, number>();
  for (const record of requests) {
    const { plan, upstream } = record;
    const names = [plan.operation, plan.caller, `fault ${plan.fault}`, `result ${resultOf(record)}`];
    for (const name of names) increment(counts, name);
    increment(counts, 'seen by the gateway', upstream.length);
  }
  for (const [name, count] of actions) increment(counts, name, count);
  const broken = ruleNames.map(
    (rule) => [`**${rule}**`, `**${violations.filter((one) => one.rule === rule).length}**`] as const,
  );
  return [
    markdown([
      ['what', 'count'],
      ['requests', requests.length],
      ['processes', processes.length],
      ...[...counts].sort(([one], [other]) => (one < other ? -1 : 1)),
      ...broken,
    ]),
    '',
    ...details(violations),
  ].join('\n');
}

/** What happened to a request, from its caller's point of view. */
function resultOf(record: RequestRecord): string {
  const { response, abandoned, sent, ending, behind } = record;
  if (response?.complete === true) return `${response.status} ${response.outcome}`;
  if (response !== undefined) return 'broke off';
  if (abandoned) return 'none, the caller left';
  if (sent === 'nothing') return 'none, not connected';
  const signal = (['SIGKILL', 'SIGTERM'] as const).find((name) => wasSignaled(record, name));
  return `none, ${behind === 'nothing' ? (signal ?? ending) : `behind a ${behind}`}`;
}

/** Violations, grouped by rule and detail without its numbers: how many, and the first ones. */
function details(violations: readonly Violation[]): string[] {
  const kinds = Map.groupBy(violations, ({ rule, detail }) =>
    `${rule}: ${detail.replaceAll(/o-\d+-\d+/g, 'an order').replaceAll(/\d+/g, 'N')}`.slice(0, 160),
  );
  return [...kinds].flatMap(([kind, alike]) => [
    `- ${alike.length} times ${kind}`,
    ...alike.slice(0, shown).map(({ subject, detail }) => `  - ${subject}: ${detail}`),
  ]);
}
