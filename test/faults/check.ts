import { faults, unreachable } from './faults.ts';
import type { Ledger, ProcessRecord, RequestRecord } from './ledger.ts';

/** A broken promise, with what is needed to reproduce it. */
export interface Violation {
  readonly rule: string;
  readonly detail: string;
  readonly subject: string;
}

export interface Bounds {
  /** Milliseconds for a whole upstream request. */
  readonly requestTimeout: number;
  /** Milliseconds on top of that for a machine that is busy. */
  readonly slack: number;
  /** Milliseconds from SIGTERM to the end of the process. */
  readonly stop: number;
}

interface Context extends Bounds {
  /** Request ID to the order ID of the request whose log line has it. */
  readonly owners: ReadonlyMap<string, string>;
}

/** Every broken promise that the ledger shows. */
export function check({ requests, processes }: Ledger, bounds: Bounds): Violation[] {
  const ids = requests.flatMap(({ lines, plan }) =>
    lines.map(({ requestId }) => [requestId, plan.orderId] as const),
  );
  const context = { ...bounds, owners: new Map(ids) };
  return [
    ...requests.flatMap((record) =>
      Object.entries(rules).flatMap(([rule, find]) =>
        find(record, context).map((detail) => ({ rule, detail, subject: subjectOf(record) })),
      ),
    ),
    ...processes.flatMap((process) =>
      checkProcess(process, bounds).map((detail) => ({ rule: 'process', detail, subject: process.name })),
    ),
  ];
}

type Rule = (record: RequestRecord, context: Context) => readonly string[];

const rules: Readonly<Record<string, Rule>> = { doubled, lie, crossed, lost, late, unlogged };

const when = (holds: boolean, detail: () => string): string[] => (holds ? [detail()] : []);

/** A payment is seen once at most; a read at most once more, after a pooled connection broke. */
function doubled({ plan, upstream, surplus }: RequestRecord): string[] {
  return [
    ...when(upstream.length > (plan.operation === 'transfer' ? 1 : 2), () => `seen ${upstream.length} times`),
    ...when(surplus, () => 'there were further bytes behind the last response'),
  ];
}

/** What the response and the log say, compared with what the gateway saw. */
function lie(record: RequestRecord): string[] {
  const { response, lines, upstream, sent, plan } = record;
  const problem = response?.problem;
  const [first] = upstream;
  // Of a read, another attempt may have failed.
  const isWhole = plan.operation === 'transfer' && first?.whole === true;
  const reason = problem?.reason ?? '';
  return [
    ...(response === undefined
      ? []
      : falsehoods(record, response.outcome, `the response ${response.status}`)),
    ...when(
      problem !== undefined && problem.outcome !== response?.outcome,
      () => `the header says ${response?.outcome} and the body ${problem?.outcome}`,
    ),
    ...when(reason === 'internal', () => 'the response says "internal": a bug'),
    ...lines.flatMap(({ outcome }) => falsehoods(record, outcome, 'the log')),
    // A truncated response said "answered" before it was truncated.
    ...when(
      response?.complete === true && lines.some(({ outcome }) => outcome !== response.outcome),
      () => `the response says ${response?.outcome} and the log ${lines[0]?.outcome}`,
    ),
    ...when(sent !== 'whole' && upstream.length > 0, () => 'seen though its caller did not complete it'),
    ...when(
      isWhole && isWholeResponse(plan.fault) && /^gateway-re(set|ply-invalid)$/.test(reason),
      () => `the gateway's response was whole, and the response says ${reason}`,
    ),
  ];
}

function falsehoods({ upstream, plan }: RequestRecord, outcome: string | undefined, who: string): string[] {
  const seen = upstream.length;
  if (outcome === 'not-sent') return when(seen > 0, () => `${who} says not-sent, seen ${seen} times`);
  if (outcome === 'answered') return when(seen === 0, () => `${who} says answered, never seen`);
  const isUnknown = outcome === 'unknown' && !unreachable.has(plan.site);
  return when(!isUnknown, () => `${who} says ${outcome}, seen ${seen} times`);
}

/** The gateway's response is complete and belongs to the request. */
const isWholeResponse = (fault: RequestRecord['plan']['fault']): boolean => faults[fault].point === 'never';

/** The body, and the request ID, are those of this request. */
function crossed({ response, plan, upstream }: RequestRecord, { owners }: Context): string[] {
  const owner = owners.get(response?.requestId ?? '') ?? plan.orderId;
  const { outcome, complete, bodyOf, body } = response ?? {};
  const isShort = upstream.some(({ fault }) => fault === 'length-too-short');
  const isIntact = body === 'whole' || (isShort && body === 'part');
  const isForeign = complete
    ? bodyOf !== plan.orderId || !isIntact
    : (bodyOf ?? plan.orderId) !== plan.orderId;
  return [
    ...when(owner !== plan.orderId, () => `its request ID is that of ${owner}`),
    ...when(outcome === 'answered' && isForeign, () => `the body is ${body} and that of ${bodyOf}`),
  ];
}

/** Every request that was handled has one response; it may be truncated if the gateway's was, or at the timeout. */
function lost(record: RequestRecord, { requestTimeout }: Context): string[] {
  const { response, process, abandoned, sent, behind, ending, upstream, lines } = record;
  if (response?.complete === true || abandoned || sent === 'nothing' || process === undefined) return [];
  if (wasSignaled(record, 'SIGKILL')) return [];
  const where = `(${ending}); seen ${upstream.length} times, logged as ${lines[0]?.outcome}`;
  const isTimeout = ending === 'timeout';
  if (response !== undefined) {
    const last = upstream.at(-1)?.fault;
    const ofGateway = last !== undefined && !isWholeResponse(last);
    const atDeadline = record.endedAt - record.sentAt >= requestTimeout;
    return when(isTimeout || !(ofGateway || atDeadline), () => `the response broke off ${where}, ${last}`);
  }
  const isHandled = upstream.length > 0 || lines.length > 0;
  // Its outcome is in the log, which another rule checks.
  if (behind === 'break') return [];
  if (behind === 'close') return when(isHandled, () => `handled behind a response that said close ${where}`);
  // A stopping process need not handle a request that it has not read.
  const isUnread = !isHandled && !isTimeout && wasSignaled(record, 'SIGTERM');
  return when(!isUnread, () => `no response ${where}`);
}

function late(
  { response, sentAt, endedAt, plan }: RequestRecord,
  { requestTimeout, slack }: Context,
): string[] {
  const took = Math.round(endedAt - sentAt);
  const allowed = (plan.position + 1) * requestTimeout + slack;
  return when(response?.complete === true && took > allowed, () => `took ${took} of ${allowed} ms`);
}

/** One line for each request that the gateway saw or the caller got a response to. */
function unlogged(record: RequestRecord, { requestTimeout, slack }: Context): string[] {
  const { lines, upstream, response, process, ending } = record;
  const isExpected = upstream.length > 0 || response?.requestId !== undefined;
  if (lines.length === 1 || (lines.length === 0 && !isExpected) || process === undefined) return [];
  if (lines.length > 1) return [`the log has ${lines.length} lines`];
  if (process.unknown.has(response?.requestId ?? '')) return [];
  if (response?.problem?.reason === 'pipelined' && process.withoutLine > 0) return [];
  // SIGKILL came before the line had to be in the log, also where the caller had left.
  const due = Math.max(record.endedAt, upstream.at(-1)?.at ?? 0) + requestTimeout + slack;
  if (process.signals.some(({ name, at }) => name === 'SIGKILL' && at <= due)) return [];
  return [`no line; seen ${upstream.length} times, response ${response?.status ?? ending}`];
}

/** The signal came before the request was over. */
function wasSignaled({ process, endedAt }: RequestRecord, signal: string): boolean {
  return process?.signals.some(({ name, at }) => name === signal && at <= endedAt) ?? false;
}

/** No process ends by itself; SIGTERM ends it in time and with exit code 0. */
function checkProcess({ exit, endedAt = 0, signals, stderr, internalErrors }: ProcessRecord, bounds: Bounds) {
  const isKilled = signals.some(({ name }) => name === 'SIGKILL');
  const stop = signals.find(({ name }) => name === 'SIGTERM')?.at ?? Number.POSITIVE_INFINITY;
  const took = Math.round(endedAt - stop);
  return [
    ...when(!isKilled && took < 0, () => `it ended by itself: ${exit}`),
    ...when(!isKilled && took > bounds.stop, () => `it ended ${took} ms after SIGTERM, of ${bounds.stop}`),
    ...when(!isKilled && took >= 0 && exit !== '0', () => `SIGTERM ended it: ${exit}`),
    ...when(stderr !== '', () => `it wrote to standard error: ${stderr.slice(0, 300)}`),
    ...internalErrors.map((line) => `it logged an internal error: ${line.slice(0, 500)}`),
  ];
}

function subjectOf({ plan, process }: RequestRecord): string {
  const { orderId, operation, fault, site, caller, position } = plan;
  return `${orderId} ${operation} ${fault} at ${site}, ${caller} #${position}, ${process?.name}`;
}
