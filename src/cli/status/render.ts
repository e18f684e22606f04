import type { Finding, Status } from '../../observability/status/schema.ts';
import { type Cell, keysTable, maxRows, paymentsOf, stateOf } from '../../observability/status/tables.ts';
import { printable } from '../../util/text.ts';
import { columns } from '../shared/table.ts';

/**
 * The findings and keys of an instance as lines of plain ASCII. Ages are measured on its clock.
 *
 * @param origin address of the instance
 * @param width characters of a line
 */
export function statusLines(status: Status, origin: string, width: number): string[] {
  const { at, findings, runbookUrl, process } = status;
  const { title, headings, rows } = keysTable(status);
  const keys = rows.slice(0, maxRows).map((row) => row.map(textOf));
  const more =
    rows.length > maxRows ? ` (${maxRows} of ${rows.length} versions, what needs attention is first)` : '';
  const indented = (lines: readonly string[][]) => columns(lines, width - 2).map((line) => `  ${line}`);
  return [
    `${stateOf(status)}: ${origin} at ${at}, version ${process.version}`,
    ...indented(findings.flatMap((one) => findingRows(one, runbookUrl))),
    '',
    ...(rows.length === 0 ? [`${title}: none`] : [`${title}${more}`, ...indented([[...headings], ...keys])]),
    '',
    `Environments, callers, failed requests, certificates: ${origin}/ in a browser, or --json`,
  ].map(printable);
}

function textOf(cell: Cell): string {
  return typeof cell === 'string' ? cell : cell.text;
}

function findingRows(finding: Finding, runbookUrl: string | null): string[][] {
  const { severity, code, summary, advice, runbookSection } = finding;
  // Without its address, what to look for in the index of the runbook.
  const runbook = runbookUrl === null ? `Runbook: ${code}` : `${runbookUrl}${runbookSection}`;
  return [
    [severity === 'bad' ? 'BAD' : severity, `${summary}. ${advice} ${runbook}`],
    ...paymentsOf(finding).map((line) => ['', line]),
  ];
}

/** JSON in plain ASCII: everything else is escaped, as JSON can. */
export function asciiJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(
    /[^ -~\n]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
