import { anchorOf, sectionOf } from '../../src/observability/status/conditions.ts';
import { alerting } from './alert-rules.ts';
import { table } from './markdown.ts';

/** Every alert, with a link to its section of the runbook. */
export function alertTable(): string {
  const rows = alerting.map((condition) => {
    const { alert, core = false, page, ticket } = condition;
    return [
      `[${alert}](../deploy/runbook.md${anchorOf(sectionOf(condition))})`,
      [...(page ? ['page'] : []), ...(ticket ? ['ticket'] : [])].join(', '),
      core ? 'yes' : '',
    ];
  });
  return table(['alert', 'severity', 'core'], rows);
}
