import { anchorOf, type Condition, codes, conditions, sectionOf } from './conditions.ts';
import type { StatusFacts } from './facts.ts';
import type { Status } from './schema.ts';
import { severities } from './thresholds.ts';

/** The status of an instance: what is known, and what follows from it. */
export function withFindings(facts: StatusFacts): Status {
  const found = codes.flatMap((code) => {
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
