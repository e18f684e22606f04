import type { Finding } from './check.ts';
import { wasKilled, wasStopped } from './check-processes.ts';
import { isWholeResponse } from './fault-table.ts';
import type { ProcessRecord, RequestRecord } from './ledger.ts';
import type { Bounds } from './violation.ts';

/** Every request that was handled has one response, in time. */
export function checkResponse(
  record: RequestRecord,
  process: ProcessRecord | undefined,
  bounds: Bounds,
): Finding[] {
  if (record.response?.complete === true) return checkTime(record, bounds);
  if (record.abandoned || record.sent === 'nothing' || process === undefined) return [];
  if (wasKilled(record, process)) return [];
  const detail = record.response === undefined ? absence(record, process) : breakOff(record, bounds);
  return detail === undefined ? [] : [{ rule: 'lost', detail }];
}

function checkTime({ sentAt, endedAt, plan }: RequestRecord, { requestTimeout, slack }: Bounds): Finding[] {
  const took = Math.round(endedAt - sentAt);
  const allowed = (plan.position + 1) * requestTimeout + slack;
  return took > allowed
    ? [{ rule: 'late', detail: `the response took ${took} ms, and may take ${allowed} ms` }]
    : [];
}

/** Whether there is a reason for no response at all. */
function absence(record: RequestRecord, process: ProcessRecord): string | undefined {
  const { behind, ending, upstreamRequests, lines } = record;
  const handled = upstreamRequests.length > 0 || lines.length > 0;
  const where = `seen by the gateway ${upstreamRequests.length} times, logged as ${lines[0]?.outcome ?? 'nothing'}`;
  // Its outcome is in the log, which another rule checks.
  if (behind === 'break') return undefined;
  if (behind === 'close') {
    return handled ? `it was handled behind a response that said close; ${where}` : undefined;
  }
  if (ending === 'timeout') return `no response, and the connection stays open; ${where}`;
  // A stopping process need not handle a request that it has not read.
  if (!handled && wasStopped(record, process)) return undefined;
  return `no response, the connection ended (${ending}); ${where}`;
}

/** A response may be truncated if the gateway's was, or at the timeout. */
function breakOff(record: RequestRecord, { requestTimeout }: Bounds): string | undefined {
  const { response, upstreamRequests, ending, sentAt, endedAt } = record;
  const last = upstreamRequests.at(-1);
  const ofGateway = last !== undefined && (!isWholeResponse(last.fault) || last.surplus !== undefined);
  const atDeadline = endedAt - sentAt >= requestTimeout;
  if ((ofGateway || atDeadline) && ending !== 'timeout') return undefined;
  return `the response ${response?.status} ${response?.outcome} broke off (${ending}); the gateway's did not (${last?.fault ?? 'never seen'})`;
}
