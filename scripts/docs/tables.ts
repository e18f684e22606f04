import { readdirSync, readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { z } from 'zod';
import { errorTable } from '../../src/errors.ts';
import { configTable } from './config-table.ts';

/** Parts of README.md that are made from the code, by the name of the markers they stand between. */
export function readmeTables(): ReadonlyMap<string, string> {
  return new Map([
    ['errors', renderErrorTable()],
    ['configuration', configurationTable()],
    ['alerts', alertTable()],
  ]);
}

/** The text with each part between its markers. */
export function withTables(readme: string): string {
  return [...readmeTables()].reduce((text, [name, table]) => {
    const between = new RegExp(`(<!-- ${name} -->\n)[^]*?(<!-- /${name} -->)`);
    if (!between.test(text)) throw new Error(`README.md has no markers for ${name}`);
    return text.replace(between, (_all, start: string, end: string) => `${start}${table}\n${end}`);
  }, readme);
}

function renderErrorTable(): string {
  const rows = Object.entries(errorTable).map(
    ([reason, { status, outcome, title }]) => `| \`${reason}\` | ${status} | ${outcome} | ${title} |`,
  );
  return table(['reason', 'status', 'outcome', 'what happened'], rows);
}

/** Every alert of deploy/prometheus, with a link to what the runbook says about it. */
function alertTable(): string {
  const folder = new URL('../../deploy/prometheus/', import.meta.url);
  const files = readdirSync(folder).filter((name) => name.endsWith('.rules.yaml'));
  const rules = files
    .flatMap((name) => ruleFile.parse(parse(readFileSync(new URL(name, folder), 'utf8'))).groups)
    .flatMap(({ rules }) => rules);
  const rows = rules.flatMap(({ alert, labels, annotations }) =>
    alert === undefined
      ? []
      : [
          `| [${alert}](deploy/runbook.md#${alert.toLowerCase()}) | ${labels?.severity} | ${summaryOf(annotations?.summary)} |`,
        ],
  );
  return table(['alert', 'severity', 'when'], rows);
}

/** Labels as placeholders. */
function summaryOf(summary = ''): string {
  return escaped(summary.replaceAll(/\{\{ \$labels\.(\w+) \}\}/g, '‹$1›'));
}

const texts = z.record(z.string(), z.string());
const rule = z.object({
  alert: z.string().optional(),
  labels: texts.optional(),
  annotations: texts.optional(),
});
const ruleFile = z.object({ groups: z.array(z.object({ rules: z.array(rule) })) });

/** Fields that only hold other fields are left out: their fields tell more. */
function configurationTable(): string {
  const rows = configTable()
    .filter(({ type }) => type !== 'mapping')
    .map((row) => `| \`${row.path}\` | ${row.type} | ${row.default} | ${escaped(row.description)} |`);
  return [
    '<details><summary>Every field</summary>',
    '',
    table(['field', 'type', 'default', 'meaning'], rows),
    '',
    '</details>',
  ].join('\n');
}

function table(heads: readonly string[], rows: readonly string[]): string {
  return [`| ${heads.join(' | ')} |`, `|${heads.map(() => '---').join('|')}|`, ...rows].join('\n');
}

function escaped(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
}
