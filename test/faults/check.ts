import { checkProcess, wasKilledBeforeLogging } from './check-processes.ts';
import { checkResponse } from './check-responses.ts';
import { checkTruth, crossedInWindow } from './check-truth.ts';
import type { Ledger, ProcessRecord, RequestRecord } from './ledger.ts';
import { type Bounds, subjectOf, type Violation } from './violation.ts';

/** Every broken promise that the ledger shows. */
export function check({ requests, processes }: Ledger, bounds: Bounds): Violation[] {
  const owners = ownersOf(requests);
  const inWindow = crossedInWindow(requests, bounds);
  return [
    ...requests.flatMap((record) => {
      const process = record.process === undefined ? undefined : processes[record.process];
      const found = [
        ...checkDoubled(record),
        ...checkTruth(record, owners, inWindow),
        ...checkResponse(record, process, bounds),
        ...checkLogged(record, process, bounds),
      ];
      const { caller } = record.plan;
      return found.map(({ rule, detail }) => ({ rule, detail, caller, subject: subjectOf(record) }));
    }),
    ...processes.flatMap((process) => checkProcess(process, bounds)),
  ];
}

/** Request id -> the request whose log line has it. */
function ownersOf(requests: readonly RequestRecord[]): ReadonlyMap<string, RequestRecord> {
  return new Map(requests.flatMap((record) => record.lines.map((line) => [line.requestId, record] as const)));
}

export type Finding = Pick<Violation, 'rule' | 'detail'>;

/** A payment is seen once at most; a read at most once more, after a pooled connection broke. */
function checkDoubled({ plan, upstreamRequests, surplusResponses }: RequestRecord): Finding[] {
  const allowed = plan.operation === 'transfer' ? 1 : 2;
  const found: Finding[] = [];
  if (upstreamRequests.length > allowed) {
    found.push({ rule: 'doubled', detail: `the gateway has seen it ${upstreamRequests.length} times` });
  }
  if (surplusResponses > 0) {
    found.push({ rule: 'doubled', detail: 'there were further bytes behind the last response' });
  }
  return found;
}

/** One line for each request that the gateway saw or the caller got a response to. */
function checkLogged(record: RequestRecord, process: ProcessRecord | undefined, bounds: Bounds): Finding[] {
  const { lines, upstreamRequests, response } = record;
  if (lines.length > 1) {
    const outcomes = lines.map(({ outcome }) => outcome).join(', ');
    return [{ rule: 'unlogged', detail: `the log has ${lines.length} lines: ${outcomes}` }];
  }
  const expected = upstreamRequests.length > 0 || response?.requestId !== undefined;
  if (lines.length === 1 || !expected || process === undefined || process.log !== 'read') return [];
  if (process.untraced.has(response?.requestId ?? '')) return [];
  // Its caller was not known yet.
  if (response?.problem?.reason === 'pipelined' && process.withoutLine > 0) return [];
  if (wasKilledBeforeLogging(record, process, bounds)) return [];
  return [{ rule: 'unlogged', detail: `the log has no line; ${seen(record)}, ${got(record)}` }];
}

function seen({ upstreamRequests }: RequestRecord): string {
  return `seen by the gateway ${upstreamRequests.length} times`;
}

function got({ response, ending }: RequestRecord): string {
  return response === undefined
    ? `no response (${ending})`
    : `response ${response.status} ${response.outcome}`;
}
