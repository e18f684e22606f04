import type { KeyStatus } from '../../observability/status/facts.ts';
import { since } from '../../observability/status/format.ts';
import { isSettled, keyStates } from '../../observability/status/key-texts.ts';
import type { Finding, Status } from '../../observability/status/schema.ts';
import { printable } from '../../util/text.ts';
import { table } from '../shared/table.ts';

/** Of a finding. */
const maxPayments = 10;
/** Of an instance. */
const maxKeys = 10;
/** Enough digits to compare by eye. */
const fingerprintLength = 16;

/**
 * The findings and keys of an instance as lines of plain ASCII. Ages are measured on its clock.
 *
 * @param origin address of the instance
 * @param width characters of a line
 */
export function statusLines(status: Status, origin: string, width: number): string[] {
  const { at, health, well, findings, runbookUrl, keys, process } = status;
  const state = health.ready ? `Ready${well ? '' : ', NOT WELL'}` : 'NOT READY';
  const indented = (head: string[], rows: string[][]) =>
    table(head, rows, width - 2).map((line) => `  ${line}`);
  const found = findings.flatMap((one) => findingRows(one, runbookUrl));
  const shown = keys.list
    .toSorted((one, other) => Number(isSettled(one)) - Number(isSettled(other)))
    .slice(0, maxKeys);
  const more =
    shown.length < keys.total
      ? ` (${shown.length} of ${keys.total}, in rotation or with a problem first)`
      : '';
  const versions = shown.flatMap((key) => keyRows(key, at));
  return [
    `${state}: ${origin} at ${at}, version ${process.version}`,
    // Without the line of the headings.
    ...indented(['', ''], found).slice(1),
    '',
    ...(versions.length === 0
      ? ['Keys: none in use']
      : [`Keys${more}`, ...indented(['LOGIN', 'KIND', 'VERSION', 'STATE', 'AGE', 'FINGERPRINT'], versions)]),
    '',
    `Environments, callers, failed requests, certificates: ${origin}/ in a browser, or --json`,
  ].map(printable);
}

function findingRows(finding: Finding, runbookUrl: string | null): string[][] {
  const { severity, summary, advice, runbookSection, payments } = finding;
  const runbook = runbookUrl === null ? '' : ` ${runbookUrl}${runbookSection}`;
  const more = payments.length - maxPayments;
  return [
    [severity === 'bad' ? 'BAD' : severity, `${summary}. ${advice}${runbook}`],
    ...payments
      .slice(0, maxPayments)
      .map(({ at, operation, orderId, caller, login, requestId }) => [
        '',
        `${at} ${operation ?? '-'} order ${orderId ?? '-'} of ${caller ?? '-'}, login ${login ?? '-'}, request ${requestId}`,
      ]),
    ...(more > 0 ? [['', `and ${more} more payments: see --json`]] : []),
  ];
}

/** One row for each version; the first also names the key. What is wrong with it is a finding. */
function keyRows({ environment, login, kind, versions }: KeyStatus, now: string): string[][] {
  return versions.map(({ version, state, createdAt, fingerprint }, index) => [
    index === 0 ? `${environment}/${login}` : '',
    index === 0 ? kind : '',
    String(version),
    keyStates[state].text,
    createdAt === null ? '-' : since(now, createdAt),
    fingerprint?.slice(0, fingerprintLength) ?? '-',
  ]);
}

/** JSON in plain ASCII: everything else is escaped, as JSON can. */
export function asciiJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(
    /[^ -~\n]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
