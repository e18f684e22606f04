import {
  anchorOf,
  type Condition,
  conditions,
  sectionOf,
} from '../../src/observability/status/conditions.ts';
import { cell, code, table } from './markdown.ts';

/** Every finding that a status can have. */
export function findingTable(): string {
  const rows = Object.entries<Condition>(conditions).flatMap(([name, condition]) => {
    const { severities = [], when, find } = condition;
    if (find === undefined) return [];
    const section = sectionOf(condition);
    const link = `[${section}](../deploy/runbook.md${anchorOf(section)})`;
    return [[code(name), severities.map(code).join(', '), cell(when), link]];
  });
  return table(['code', 'severity', 'when', 'runbook'], rows);
}
