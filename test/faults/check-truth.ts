import type { Finding } from './check.ts';
import { isWholeResponse, unreachable } from './fault-table.ts';
import type { RequestRecord } from './ledger.ts';
import type { Bounds } from './violation.ts';

/** What the response and the log say, compared with what the gateway saw. */
export function checkTruth(
  record: RequestRecord,
  owners: ReadonlyMap<string, RequestRecord>,
  inWindow: ReadonlySet<RequestRecord>,
): Finding[] {
  // A request that got the response to an earlier one may never be read itself.
  if (inWindow.has(record) && record.upstreamRequests.length === 0) return [];
  const lies = [...ofResponse(record), ...ofLog(record), ...ofRequest(record)];
  return [
    ...lies.map((detail): Finding => ({ rule: 'lie', detail })),
    ...crossedResponses(record, owners, inWindow).map((detail): Finding => ({ rule: 'crossed', detail })),
  ];
}

function ofResponse(record: RequestRecord): string[] {
  const { response } = record;
  if (response === undefined) return [];
  const { outcome, problem, status } = response;
  const found = falsehoods(record, outcome, `the response ${status} says`);
  if (problem !== undefined && problem.outcome !== outcome) {
    found.push(`the header says ${outcome} and the body ${problem.outcome}`);
  }
  if (problem?.reason === 'internal') found.push('the response says "internal": a bug');
  return found;
}

function ofLog(record: RequestRecord): string[] {
  const { response, lines } = record;
  return lines.flatMap(({ outcome }) => {
    const found = falsehoods(record, outcome, 'the log says');
    // A truncated response said "answered" before it was truncated.
    const reported = response?.complete === true ? response.outcome : outcome;
    if (reported !== outcome) found.push(`the response says ${reported} and the log ${outcome}`);
    return found;
  });
}

function falsehoods(
  { upstreamRequests, plan }: RequestRecord,
  outcome: string | undefined,
  who: string,
): string[] {
  const times = upstreamRequests.length;
  switch (outcome) {
    case 'not-sent':
      return times === 0 ? [] : [`${who} not-sent, and the gateway has seen it ${times} times`];
    case 'answered':
      return times > 0 ? [] : [`${who} answered, and the gateway has never seen it`];
    case 'unknown':
      return unreachable.has(plan.site) ? [`${who} unknown, though no connection could be made`] : [];
    case undefined:
    default:
      return [`${who} ${outcome} instead of an outcome`];
  }
}

function ofRequest({ sent, plan, upstreamRequests, response }: RequestRecord): string[] {
  const found: string[] = [];
  if (sent !== 'whole' && upstreamRequests.length > 0) {
    found.push('the gateway has seen a request that its caller did not complete');
  }
  const [first] = upstreamRequests;
  const reason = response?.problem?.reason ?? '';
  const onOwnConnection = plan.operation === 'transfer' && first?.whole === true && !first.isCut();
  if (onOwnConnection && isWholeResponse(first.fault) && /^gateway-re(set|ply-invalid)$/.test(reason)) {
    found.push(`the gateway's response was whole, and the response says ${reason}`);
  }
  return found;
}

function crossedResponses(
  record: RequestRecord,
  owners: ReadonlyMap<string, RequestRecord>,
  inWindow: ReadonlySet<RequestRecord>,
): string[] {
  const { response, plan } = record;
  const found: string[] = [];
  const owner = owners.get(response?.requestId ?? '');
  if (owner !== undefined && owner !== record) {
    found.push(`its request id is that of ${owner.plan.orderId}`);
  }
  if (isForeign(record) && !inWindow.has(record)) {
    const whose = response?.bodyOf ?? 'no order';
    found.push(`the body is ${response?.body} and that of ${whose}, not of ${plan.orderId}${after(record)}`);
  }
  return found;
}

/** What the gateway had written to the connection before. */
function after({ upstreamRequests }: RequestRecord): string {
  const surplus = upstreamRequests.find((one) => one.surplus !== undefined)?.surplus;
  if (surplus === undefined) return '';
  const how = surplus.joined
    ? 'with the response before it'
    : `${Math.round(surplus.milliseconds)} ms before`;
  return `; a surplus response had come ${how}`;
}

/** Whether the body is not that of this request. */
function isForeign({ response, plan, upstreamRequests }: RequestRecord): boolean {
  if (response?.outcome !== 'answered') return false;
  if (!response.complete) return response.bodyOf !== undefined && response.bodyOf !== plan.orderId;
  const shortened = upstreamRequests.some(({ fault }) => fault === 'length-too-short');
  const intact = response.body === 'whole' || (shortened && response.body === 'part');
  return response.bodyOf !== plan.orderId || !intact;
}

/**
 * The requests that got a wrong response within the window that remains (SECURITY.md): a surplus response came so
 * shortly before the request that it may have arrived after the request was written. The response to that request is
 * then itself surplus, for the next read on the connection.
 */
export function crossedInWindow(requests: readonly RequestRecord[], bounds: Bounds): Set<RequestRecord> {
  const foreign = requests.filter(isForeign);
  const crossed = new Set(foreign.filter((record) => isWithinWindow(record, bounds)));
  // What a request displaces may have been planned before it.
  for (let known = 0; known < crossed.size; ) {
    known = crossed.size;
    const displaced = new Set([...crossed].map(({ plan }) => plan.orderId));
    for (const record of foreign)
      if (record.plan.operation !== 'transfer' && displaced.has(record.response?.bodyOf ?? ''))
        crossed.add(record);
  }
  return crossed;
}

function isWithinWindow({ upstreamRequests }: RequestRecord, { surplusWindow }: Bounds): boolean {
  return upstreamRequests.some(
    ({ surplus }) => surplus?.joined === false && surplus.milliseconds <= surplusWindow,
  );
}
