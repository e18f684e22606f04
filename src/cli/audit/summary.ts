import type { AuditRecord } from '../../audit/chain.ts';
import { headText } from '../../audit/defects.ts';
import type { TrailSummary } from '../../audit/trail-summary.ts';
import { printable } from '../shared/printable.ts';

export interface Given {
  readonly files: number;
  readonly heads: number;
}

/** What was verified, up to the first defect. */
export function summaryLines(summary: TrailSummary, { files, heads }: Given): string[] {
  const { first, last } = summary;
  if (first === undefined || last === undefined) return [];
  return [
    `verified: ${plural(summary.records, 'record')} in ${plural(files, 'file')}, ${first.sequence} to ${last.sequence}`,
    `time:     ${timeOf(first)} to ${timeOf(last)}`,
    `instance: ${[...summary.instances].map(printable).join(', ')}`,
    `keys:     ${[...summary.keys].join(', ')}`,
    ...configuration(summary),
    `head:     ${headText(last)}`,
    ...[...(heads === 0 ? beginning(first) : []), ...notes(summary)].map((note) => `note:     ${note}`),
  ];
}

/** Compare the digest with `sha256sum FILE`. */
function configuration({ configs, lastConfig }: TrailSummary): string[] {
  if (lastConfig === undefined) return [];
  const { kind, fields } = lastConfig;
  const how = `by ${kind === 'start' ? 'start' : 'reload'} at ${timeOf(lastConfig)}`;
  const before = configs === 1 ? '' : `${configs.toLocaleString('en-US')} applied, the last `;
  return [`config:   ${before}${printable(String(fields['config']))} ${how}`];
}

/** If all files were removed while no process was running, the next process begins with record 1. */
function beginning(first: AuditRecord): string[] {
  if (first.sequence > 1) return [];
  return [
    `the trail begins with record 1 at ${timeOf(first)}; without --head, earlier trails cannot be excluded`,
  ];
}

/** What is no defect, and an auditor should know. */
function notes(summary: TrailSummary): string[] {
  const { lost, omitted, torn, unfinished, unfinishedIds, open, incomplete } = summary;
  return [
    ...(lost > 0 ? [`${plural(lost, 'record')} could not be written (gap records)`] : []),
    ...(omitted > 0
      ? [
          `${plural(omitted, 'rejected request')} exceeded the limit of their caller and have no record (omitted records)`,
        ]
      : []),
    ...(torn > 0 ? [`${plural(torn, 'byte')} were cut off by a crash (start records)`] : []),
    ...(unfinished > 0
      ? [
          `${plural(unfinished, 'request')} without a result when a process ended, as after a crash; their outcome is unknown: ${unfinishedIds.map(printable).join(', ')}`,
        ]
      : []),
    ...(open > 0 ? [`${plural(open, 'request')} at the end without a result`] : []),
    ...(incomplete === undefined
      ? []
      : [
          `${incomplete.file}:${incomplete.line} is incomplete: written at this moment, or cut off by a crash; no record proves it yet`,
        ]),
  ];
}

function plural(count: number, noun: string): string {
  return `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`;
}

function timeOf({ fields: { time } }: AuditRecord): string {
  return printable(String(time));
}
