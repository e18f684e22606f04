import type { Run } from './run.ts';

/** How many violations of one kind are printed with their details. */
const shown = 3;

/** Violations, grouped by rule and detail without its numbers: how many, and the first ones. */
export function report({ requests, processes, violations }: Run): string {
  const kinds = Map.groupBy(violations, ({ rule, detail }) =>
    `${rule}: ${detail.replaceAll(/o-\d+-\d+/g, 'an order').replaceAll(/\d+/g, 'N')}`.slice(0, 160),
  );
  const details = [...kinds].flatMap(([kind, alike]) => [
    `- ${alike.length} times ${kind}`,
    ...alike.slice(0, shown).map(({ subject, detail }) => `  - ${subject}: ${detail}`),
  ]);
  const counts = `${requests.length} requests, ${processes.length} processes, ${violations.length} violations`;
  return [counts, ...details].join('\n');
}
