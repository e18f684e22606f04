import { z } from 'zod';
import type { Condition } from './conditions/condition.ts';
import { anchorOf, conditions, findingCodes, sectionOf } from './conditions.ts';
import { type StatusFacts, statusFacts, uncertainPayment } from './facts.ts';
import { severities } from './thresholds.ts';

const text = z.string();
/** `null`: there is none, or it is not known. */
const maybeText = text.nullable();

/** Texts are plain; what is between backticks is code. */
const finding = z.strictObject({
  severity: z
    .enum(severities)
    .describe('`bad` has to be dealt with now, `warn` soon; `info` is normal, such as a rotation.'),
  code: z.enum(findingCodes).describe('Stable; see the table of findings.'),
  environment: maybeText.describe('null: it concerns all of them, or none.'),
  login: maybeText,
  caller: maybeText,
  summary: text.describe('What happened.'),
  advice: text.describe('What to do, or what it means.'),
  runbookSection: text.describe('Section of the runbook, such as `#countersignclockskew`.'),
  payments: z.array(uncertainPayment).describe('Each payment whose outcome has to be queried, newest first.'),
});

/** What `/status.json` returns. */
export const statusSchema = z.strictObject({
  ...statusFacts.shape,
  well: z
    .boolean()
    .describe('Whether this instance does its work: no finding is `bad`. One that is ready may not be well.'),
  findings: z.array(finding).describe('What needs attention or should be known, the most serious first.'),
});

export type Status = z.output<typeof statusSchema>;
export type Finding = Status['findings'][number];

/** The status of an instance: what is known, and what follows from it. */
export function withFindings(facts: StatusFacts): Status {
  const found = findingCodes.flatMap((code) => {
    const condition: Condition = conditions[code];
    const { find = () => undefined } = condition;
    const all = [find(facts)].flat().filter((one) => one !== undefined);
    return all.map(({ summary, state = [], todo = condition.todo, ...about }) => ({
      severity: about.severity ?? condition.severity ?? 'bad',
      code,
      environment: about.environment ?? null,
      login: about.login ?? null,
      caller: about.caller ?? null,
      summary,
      advice: [...state, todo].filter((sentence) => sentence !== '').join(' '),
      runbookSection: anchorOf(sectionOf(condition)),
      payments: [...(about.payments ?? [])],
    }));
  });
  const findings = severities.flatMap((severity) => found.filter((one) => one.severity === severity));
  return { ...facts, well: !findings.some(({ severity }) => severity === 'bad'), findings };
}
