import { headText } from '../../audit/defects.ts';
import type { TrailSummary } from '../../audit/trail-summary.ts';

/** What was verified, up to the first defect. */
export function summaryLines(summary: TrailSummary, files: number): string[] {
  const { first, last } = summary;
  if (first === undefined || last === undefined) return [];
  return [
    `verified: ${plural(summary.records, 'record')} in ${plural(files, 'file')}, ${first.sequence} to ${last.sequence}`,
    `time:     ${String(first.fields['time'])} to ${String(last.fields['time'])}`,
    `instance: ${[...summary.instances].map(printable).join(', ')}`,
    `keys:     ${[...summary.keys].join(', ')}`,
    `head:     ${headText(last)}`,
    ...notes(summary).map((note) => `note:     ${note}`),
  ];
}

/** What is no defect, and an auditor should know. */
function notes(summary: TrailSummary): string[] {
  const { lost, omitted, torn, unfinished, unfinishedIds, open, incomplete } = summary;
  return [
    ...(lost > 0 ? [`${plural(lost, 'record')} could not be written (gap records)`] : []),
    ...(omitted > 0
      ? [`${plural(omitted, 'request')} without known credentials exceeded the rate limit and have no record`]
      : []),
    ...(torn > 0 ? [`${plural(torn, 'byte')} were cut off by a crash (start records)`] : []),
    ...(unfinished > 0
      ? [
          `${plural(unfinished, 'request')} without a result when a process ended, as after a crash; their outcome is unknown: ${unfinishedIds.join(', ')}`,
        ]
      : []),
    ...(open > 0 ? [`${plural(open, 'request')} at the end without a result`] : []),
    ...incomplete.map((place) => `${place} is incomplete: written at this moment, or cut off by a crash`),
  ];
}

function plural(count: number, noun: string): string {
  return `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`;
}

function printable(text: string): string {
  return text.replace(/[^ -~]/g, '?');
}
