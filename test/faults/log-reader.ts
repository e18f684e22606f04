import type { Readable } from 'node:stream';
import type { LoggedRequest, ProcessRecord, RequestRecord } from './ledger.ts';
import { indexOfTrace } from './plan.ts';

/** The ledger's record of each request. */
export type RecordOf = (index: number) => RequestRecord | undefined;

/** Records the log of one process in the ledger, line by line. */
export function readLog(stdout: Readable, process: ProcessRecord, recordOf: RecordOf): void {
  let rest = '';
  stdout.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) noteLine(line, process, recordOf);
  });
}

function noteLine(line: string, process: ProcessRecord, recordOf: RecordOf): void {
  const fields: unknown = line.startsWith('{') ? JSON.parse(line) : undefined;
  if (typeof fields !== 'object' || fields === null) return;
  const field = (name: string): string | undefined => {
    const value: unknown = Reflect.get(fields, name);
    return typeof value === 'string' ? value : undefined;
  };
  if ('stack' in fields || 'origin' in fields) process.internalErrors.push(line);
  if (field('msg') === 'rejected requests without a log line') {
    process.withoutLine += Number(Reflect.get(fields, 'count'));
  }
  const traceId = field('traceId');
  const [requestId, outcome] = [field('requestId'), field('outcome')];
  if (requestId === undefined || outcome === undefined) return;
  if (traceId === undefined) return void process.untraced.add(requestId);
  const logged: LoggedRequest = { process: process.id, requestId, outcome, operation: field('operation') };
  recordOf(indexOfTrace(traceId))?.lines.push(logged);
}
