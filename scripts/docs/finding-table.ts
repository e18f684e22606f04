import type { Condition } from '../../src/observability/status/conditions/condition.ts';
import { conditions } from '../../src/observability/status/conditions.ts';
import { cell, code, table } from './markdown.ts';

/** Every finding that a status can have. */
export function findingTable(): string {
  const rows = Object.entries<Condition>(conditions).flatMap(([name, condition]) => {
    const { severity, when, find } = condition;
    const severities = severity === undefined ? ['bad', 'warn'] : [severity];
    return find === undefined ? [] : [[code(name), severities.map(code).join(', '), cell(when)]];
  });
  return table(['code', 'severity', 'when'], rows);
}
