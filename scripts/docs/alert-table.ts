import { readdirSync, readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { z } from 'zod';
import { cell, table } from './markdown.ts';

const texts = z.record(z.string(), z.string());
const rule = z.object({
  alert: z.string().optional(),
  labels: texts.optional(),
  annotations: texts.optional(),
});
const ruleFile = z.object({ groups: z.array(z.object({ rules: z.array(rule) })) });

/** Every alert of deploy/prometheus, with a link to its section of the runbook. */
export function alertTable(): string {
  const folder = new URL('../../deploy/prometheus/', import.meta.url);
  const files = readdirSync(folder).filter((name) => name.endsWith('.rules.yaml'));
  const rules = files
    .flatMap((name) => ruleFile.parse(parse(readFileSync(new URL(name, folder), 'utf8'))).groups)
    .flatMap((group) => group.rules);
  const rows = rules.flatMap(({ alert, labels, annotations }) =>
    alert === undefined ? [] : [[linkTo(alert), labels?.['severity'] ?? '', summaryOf(annotations)]],
  );
  return table(['alert', 'severity', 'when'], rows);
}

function linkTo(alert: string): string {
  return `[${alert}](../deploy/runbook.md#${alert.toLowerCase()})`;
}

/** With labels as placeholders. */
function summaryOf(annotations: Readonly<Record<string, string>> = {}): string {
  return cell((annotations['summary'] ?? '').replaceAll(/\{\{ \$labels\.(\w+) \}\}/g, '‹$1›'));
}
