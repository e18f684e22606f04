import type { ProcessRecord, RequestRecord } from './ledger.ts';
import { type Bounds, type Rule, subjectOfProcess, type Violation } from './violation.ts';

/** No process ends by itself; SIGTERM ends it in time and with exit code 0. */
export function checkProcess(process: ProcessRecord, bounds: Bounds): Violation[] {
  const found = [...endings(process, bounds), ...outputs(process)];
  const rule: Rule = 'process';
  return found.map((detail) => ({ rule, detail, subject: subjectOfProcess(process) }));
}

function endings({ exit, signals, hung, endedAt }: ProcessRecord, bounds: Bounds): string[] {
  if (hung) return ['it did not react any more, and was killed by the harness'];
  if (exit === undefined || endedAt === undefined) return ['it is still running'];
  if (signals.some(({ name }) => name === 'SIGKILL')) return [];
  const stop = signals.find(({ name }) => name === 'SIGTERM');
  if (stop === undefined || endedAt < stop.at) {
    return [`it ended by itself with exit code ${exit.code}, signal ${exit.signal}`];
  }
  const took = Math.round(endedAt - stop.at);
  return [
    ...(took > bounds.stop ? [`it ended ${took} ms after SIGTERM, and may take ${bounds.stop} ms`] : []),
    ...(exit.code === 0 ? [] : [`SIGTERM ended it with exit code ${exit.code}, signal ${exit.signal}`]),
  ];
}

/** A process whose log is broken may write to standard error. */
function outputs({ log, stderr, internalErrors }: ProcessRecord): string[] {
  return [
    ...(log === 'read' && stderr !== '' ? [`it wrote to standard error: ${stderr.slice(0, 300)}`] : []),
    ...internalErrors.map((line) => `it logged an internal error: ${line.slice(0, 500)}`),
  ];
}

/** SIGKILL ended the connection: no response is promised. */
export function wasKilled({ endedAt }: RequestRecord, { signals }: ProcessRecord): boolean {
  return signals.some(({ name, at }) => name === 'SIGKILL' && at <= endedAt);
}

/** SIGKILL came before the line of the request had to be in the log, also where its caller had left. */
export function wasKilledBeforeLogging(
  record: RequestRecord,
  process: ProcessRecord,
  bounds: Bounds,
): boolean {
  const kill = process.signals.find(({ name }) => name === 'SIGKILL');
  if (kill === undefined) return false;
  const lastSeen = record.upstreamRequests.at(-1)?.at ?? 0;
  return kill.at <= Math.max(record.endedAt, lastSeen) + bounds.requestTimeout + bounds.slack;
}

/** SIGTERM came before the request was over. */
export function wasStopped(record: RequestRecord, process: ProcessRecord): boolean {
  return process.signals.some(({ name, at }) => name === 'SIGTERM' && at <= record.endedAt);
}
