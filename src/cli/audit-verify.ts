import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Readable } from 'node:stream';
import type { AuditRecord, Head } from '../audit/chain.ts';
import { inOrder, originOf, trailFilesIn } from '../audit/files.ts';
import { readAuditKey } from '../audit/key.ts';
import { type Defect, headText, type TrailSummary, Verifier } from '../audit/verifier.ts';
import { printable } from '../util/text.ts';
import { CliError, exitCode } from './shared/cli-error.ts';
import { command, group, list } from './shared/command.ts';

interface Line {
  /** Without its line feed. */
  readonly bytes: Buffer;
  /** From 1. */
  readonly number: number;
  /** No line feed follows: the end of the input, or a part of a line that is too long for a record. */
  readonly isOpen: boolean;
}

const newline = 0x0a;

/** Digits of a MAC that a metric shows. */
const minDigits = 12;

/** Many times the length of a record. What is longer is cut: it cannot be a record. */
const maxLineBytes = 65_536;

const options = {
  'key-file FILE': list('Key of the trail (audit.keyFile); repeat it for earlier keys', String),
  'head SEQUENCE:MAC': list(
    'A head that was logged or scraped: shows whether records are missing at the end. The MAC may be its first 12 or more digits. Repeat it for several heads',
    parseHead,
  ),
  'after SEQUENCE:MAC': list('A head of archived files, which the given ones follow; repeat it', parseHead),
  'skip-log': 'Skip the log lines in the output of a process whose trail goes to standard output',
};

const spec = {
  name: 'audit verify',
  usage: 'PATH... --key-file FILE [--head SEQUENCE:MAC]... [--after SEQUENCE:MAC]...',
  about:
    'Verifies an audit trail: each record is unchanged, follows the one before it, and none is missing. A PATH is a folder (audit.directory) or a file; - reads standard input. Files of earlier versions and outputs are read in the given order, as those of one instance. Reports the first defect with its file and line.',
  options,
  exitCodes: '0 ok, 1 the trail is altered, or a failure, 2 invalid usage',
  maxPositionals: Number.POSITIVE_INFINITY,
};

const verify = command(spec, async ({ values, positionals: paths }, io) => {
  if (paths.length === 0) throw new CliError('name a folder or a file', exitCode.usage);
  const { 'key-file': keyFiles, head: heads, after, 'skip-log': skipOthers } = values;
  if (keyFiles.length === 0) throw new CliError('--key-file is missing', exitCode.usage);
  const keys = await Promise.all(keyFiles.map(readAuditKey));
  const verifier = new Verifier({ keys, heads, after, skipOthers });
  const trails = await trailsIn(paths);
  const defect = await firstDefect(trails, verifier);
  const files = trails.flat().length;
  for (const line of summaryLines(verifier.summary, files, heads.length > 0)) io.out(line);
  if (defect === undefined) return exitCode.done;
  const { file, line } = defect;
  const message = printable(defect.message);
  io.err(file === undefined ? `defect: ${message}` : `defect: ${file}:${line}: ${message}`);
  return exitCode.failed;
});

/** Checks audit trails, for auditors. */
export const audit = group('audit', [
  ['verify', 'Verify that an audit trail is complete and unchanged', async () => verify],
]);

/** The files of each start of a process in their order; those with other names are one trail. @throws Error of node:fs */
async function trailsIn(paths: readonly string[]): Promise<readonly (readonly string[])[]> {
  const found = paths.map(async (path) => {
    if (path === '-' || !(await stat(path)).isDirectory()) return [path];
    return (await trailFilesIn(path)).map((file) => join(path, file));
  });
  const files = (await Promise.all(found)).flat();
  const trails = Map.groupBy(files, (file) => originOf(basename(file))?.start ?? '');
  return [...trails]
    .sort(([one], [other]) => inOrder(one, other))
    .map(([start, own]) =>
      start === '' ? own : own.sort((one, other) => inOrder(basename(one), basename(other))),
    );
}

async function firstDefect(
  trails: readonly (readonly string[])[],
  verifier: Verifier,
): Promise<Defect | undefined> {
  for (const files of trails) {
    const defect = (await defectIn(files, verifier)) ?? verifier.endTrail();
    if (defect !== undefined) return defect;
  }
  return verifier.end();
}

async function defectIn(files: readonly string[], verifier: Verifier): Promise<Defect | undefined> {
  for (const file of files) {
    const input = file === '-' ? process.stdin : createReadStream(file, { highWaterMark: 262_144 });
    for await (const lines of readLines(input)) {
      for (const { bytes, number, isOpen } of lines) {
        const defect = verifier.add(bytes, { file, line: number }, isOpen);
        if (defect !== undefined) return defect;
      }
    }
  }
  return undefined;
}

function parseHead(text: string, option: string): Head {
  const [, sequence = '', mac = ''] = /^(\d{1,15}):([0-9a-f]+)$/i.exec(text) ?? [];
  if (mac.length >= minDigits && mac.length <= 64) {
    return { sequence: Number(sequence), mac: mac.toLowerCase() };
  }
  throw new CliError(
    `${option} must be SEQUENCE:MAC with ${minDigits} to 64 hex digits, such as 1024:9f86d081884c`,
    exitCode.usage,
  );
}

/** The lines of an input, as bytes. @throws Error of the input */
export async function* readLines(input: Readable): AsyncGenerator<Line[]> {
  let rest = Buffer.alloc(0);
  let number = 1;
  for await (const chunk of input) {
    const bytes = Buffer.concat([rest, chunk]);
    const lines: Line[] = [];
    let start = 0;
    for (let end = bytes.indexOf(newline); end !== -1; end = bytes.indexOf(newline, start)) {
      lines.push({ bytes: bytes.subarray(start, end), number, isOpen: false });
      start = end + 1;
      number += 1;
    }
    rest = bytes.subarray(start);
    if (rest.length > maxLineBytes) {
      lines.push({ bytes: rest, number, isOpen: true });
      rest = Buffer.alloc(0);
    }
    yield lines;
  }
  if (rest.length > 0) yield [{ bytes: rest, number, isOpen: true }];
}

/** What was verified, up to the first defect. */
function summaryLines(summary: TrailSummary, files: number, hasHeads: boolean): string[] {
  const { first, last, heads } = summary;
  if (first === undefined || last === undefined) return [];
  const unproved = 'without --head, records cut off at the end and removed trails cannot be excluded';
  return [
    `verified: ${plural(summary.records, 'record')} in ${plural(files, 'file')}`,
    `time:     ${timeOf(first)} to ${timeOf(last)}`,
    `instance: ${[...summary.instances].map(printable).join(', ')}`,
    `keys:     ${[...summary.keys].join(', ')}`,
    ...configuration(summary),
    ...heads.map(({ head, file }) => `head:     ${headText(head)} ${file}`),
    ...[...(hasHeads ? [] : [unproved]), ...notes(summary)].map((note) => `note:     ${note}`),
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

/** What is no defect, and an auditor should know. */
function notes(summary: TrailSummary): string[] {
  const { lost, omitted, unfinished, unfinishedIds, unstopped, incomplete } = summary;
  const counted = (count: number, noun: string, text: string): string[] =>
    count > 0 ? [`${plural(count, noun)} ${text}`] : [];
  const ids = unfinishedIds.map(printable).join(', ');
  const inFlight = 'in flight when their process or their file ended; their outcome is unknown';
  return [
    ...counted(lost, 'record', 'could not be written (gap records)'),
    ...counted(
      omitted,
      'rejected request',
      'above the limit of their caller without a record (omitted records)',
    ),
    ...counted(unfinished, 'request', `without a result, ${inFlight}: ${ids}`),
    ...counted(
      unstopped.length,
      'trail',
      `without a stop record: running, killed or cut off: ${unstopped.join(', ')}`,
    ),
    ...incomplete.map(
      ({ file, line }) => `${file}:${line} is incomplete: written now, or cut off by a crash`,
    ),
  ];
}

function plural(count: number, noun: string): string {
  return `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`;
}

function timeOf({ fields: { time } }: AuditRecord): string {
  return printable(String(time));
}
