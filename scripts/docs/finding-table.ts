import { findingCodes } from '../../src/observability/status/finding-codes.ts';
import { cell, code, table } from './markdown.ts';

/** Every finding that a status can have. */
export function findingTable(): string {
  const rows = Object.entries(findingCodes).map(([name, { severities, when, runbookSection }]) => [
    code(name),
    severities.map(code).join(', '),
    cell(when),
    `[${runbookSection.slice(1)}](../deploy/runbook.md${runbookSection})`,
  ]);
  return table(['code', 'severity', 'when', 'runbook'], rows);
}
