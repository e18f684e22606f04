import { describe, expect, it } from '@jest/globals';
import { check } from '../../faults/check.ts';
import type { FaultName, SiteName } from '../../faults/fault-table.ts';
import {
  newRecord,
  type ProcessRecord,
  type ReceivedResponse,
  type RequestRecord,
  type UpstreamRequest,
} from '../../faults/ledger.ts';
import { type OperationName, orderIdOf } from '../../faults/plan.ts';
import type { Bounds } from '../../faults/violation.ts';

const bounds: Bounds = { requestTimeout: 1_500, slack: 2_000, stop: 7_000, surplusWindow: 10 };

interface Planned {
  readonly operation?: OperationName;
  readonly fault?: FaultName;
  readonly site?: SiteName;
}

/** A request that went well: seen once, answered with its own body, logged once. */
function goodRequest(index = 0, planned: Planned = {}): RequestRecord {
  const orderId = orderIdOf(1, index);
  const record = newRecord({
    index,
    orderId,
    operation: 'transfer',
    site: 'plain',
    fault: 'good',
    caller: 'single',
    session: 0,
    position: 0,
    padding: 0,
    chunked: false,
    ...planned,
  });
  return Object.assign(record, {
    process: 0,
    sent: 'whole',
    sentAt: 100,
    endedAt: 150,
    response: goodResponse(orderId, index),
    upstreamRequests: [upstreamRequest(planned.fault)],
    lines: [{ process: 0, requestId: `id-${index}`, outcome: 'answered', operation: 'transfer' }],
  });
}

function goodResponse(orderId: string, index: number): ReceivedResponse {
  return {
    status: 200,
    outcome: 'answered',
    problem: undefined,
    requestId: `id-${index}`,
    saysClose: false,
    complete: true,
    bodyOf: orderId,
    body: 'whole',
  };
}

function upstreamRequest(fault: FaultName = 'good', surplus?: UpstreamRequest['surplus']): UpstreamRequest {
  return { connection: 1, attempt: 1, fault, at: 120, whole: true, isCut: () => false, surplus };
}

/** What Countersign says itself. */
function problem(outcome: string, reason: string): ReceivedResponse {
  const own = {
    status: 502,
    outcome,
    problem: { outcome, reason },
    bodyOf: undefined,
    body: 'none',
  } as const;
  return { ...goodResponse('', 0), ...own };
}

function goodProcess(): ProcessRecord {
  return {
    id: 0,
    instance: 'a',
    log: 'read',
    startedAt: 0,
    signals: [{ name: 'SIGTERM', at: 10_000 }],
    endedAt: 10_500,
    exit: { code: 0, signal: null },
    stderr: '',
    untraced: new Set<string>(),
    withoutLine: 0,
    internalErrors: [],
    hung: false,
  };
}

/** Rule and detail of what is found in one request, and in its process. */
function found(
  record: RequestRecord,
  process: ProcessRecord = goodProcess(),
  ...more: RequestRecord[]
): string[] {
  const ledger = { requests: [record, ...more], processes: [process] };
  return check(ledger, bounds).map(({ rule, detail }) => `${rule}: ${detail}`);
}

/** The same after a change of what is on record. */
function falsified(changes: Partial<RequestRecord>, planned: Planned = {}): string[] {
  return found(Object.assign(goodRequest(0, planned), changes));
}

const loggedAs = (outcome: string): RequestRecord['lines'] => [
  { process: 0, requestId: 'id-0', outcome, operation: 'transfer' },
];
const seenTwice = { upstreamRequests: [upstreamRequest(), upstreamRequest()] };

describe('the check of the ledger', () => {
  it('finds nothing where every promise was kept', () => {
    expect(found(goodRequest())).toEqual([]);
    expect(
      falsified({
        response: problem('not-sent', 'overloaded'),
        upstreamRequests: [],
        lines: loggedAs('not-sent'),
      }),
    ).toEqual([]);
    expect(
      falsified(
        { response: problem('unknown', 'gateway-reset'), lines: loggedAs('unknown') },
        { fault: 'read-reset' },
      ),
    ).toEqual([]);
  });

  it('finds a transfer that the gateway saw twice, and allows a read one retry', () => {
    expect(falsified(seenTwice)).toEqual(['doubled: the gateway has seen it 2 times']);
    expect(falsified(seenTwice, { operation: 'order-status' })).toEqual([]);
    const thrice = { upstreamRequests: [upstreamRequest(), upstreamRequest(), upstreamRequest()] };
    expect(falsified(thrice, { operation: 'order-status' })).toEqual([
      'doubled: the gateway has seen it 3 times',
    ]);
  });

  it('finds a second response', () => {
    expect(falsified({ surplusResponses: 1 })).toEqual([
      'doubled: there were further bytes behind the last response',
    ]);
  });
});

describe('the check of outcomes finds', () => {
  it('not-sent for a request that the gateway saw', () => {
    expect(
      falsified({ response: problem('not-sent', 'gateway-unreachable'), lines: loggedAs('not-sent') }),
    ).toEqual([
      'lie: the response 502 says not-sent, and the gateway has seen it 1 times',
      'lie: the log says not-sent, and the gateway has seen it 1 times',
    ]);
  });

  it('the same for a read of which only an earlier attempt was seen', () => {
    const changes = { response: problem('not-sent', 'gateway-unreachable'), lines: loggedAs('not-sent') };
    expect(falsified(changes, { operation: 'order-status', fault: 'read-reset-then-refused' })).toHaveLength(
      2,
    );
  });

  it('answered for a request that the gateway never saw', () => {
    expect(falsified({ upstreamRequests: [] })).toEqual([
      'lie: the response 200 says answered, and the gateway has never seen it',
      'lie: the log says answered, and the gateway has never seen it',
    ]);
  });

  it('unknown where no connection could be made', () => {
    const changes = {
      response: problem('unknown', 'gateway-timeout'),
      upstreamRequests: [],
      lines: loggedAs('unknown'),
    };
    expect(falsified(changes, { site: 'refused', fault: 'refused' })).toEqual([
      'lie: the response 502 says unknown, though no connection could be made',
      'lie: the log says unknown, though no connection could be made',
    ]);
  });

  it('a response without an outcome, or with two', () => {
    const response = { ...goodResponse(orderIdOf(1, 0), 0), outcome: undefined };
    expect(falsified({ response })).toContain('lie: the response 200 says undefined instead of an outcome');
    const two = {
      ...problem('unknown', 'gateway-reset'),
      problem: { outcome: 'not-sent', reason: 'gateway-reset' },
    };
    expect(falsified({ response: two, lines: loggedAs('unknown') }, { fault: 'read-reset' })).toEqual([
      'lie: the header says unknown and the body not-sent',
    ]);
  });

  it('a log that says something else than the response', () => {
    expect(falsified({ lines: loggedAs('unknown') })).toEqual([
      'lie: the response says answered and the log unknown',
    ]);
  });

  it('a request that was sent on although its caller did not complete it', () => {
    expect(falsified({ sent: 'part', abandoned: true, response: undefined })).toEqual([
      'lie: the gateway has seen a request that its caller did not complete',
    ]);
  });

  it('a failure that the gateway did not cause', () => {
    const changes = { response: problem('unknown', 'gateway-reset'), lines: loggedAs('unknown') };
    expect(falsified(changes)).toEqual([
      "lie: the gateway's response was whole, and the response says gateway-reset",
    ]);
  });
});

describe('the check of bodies finds', () => {
  const foreign = { ...goodResponse('surplus-o-1-7', 0) };
  const crossed = 'crossed: the body is whole and that of surplus-o-1-7, not of o-1-0';

  it('the body of another request', () => {
    expect(falsified({ response: foreign })).toEqual([crossed]);
  });

  it('the same in a response that broke off', () => {
    expect(falsified({ response: { ...foreign, complete: false } }, { fault: 'large-reset' })).toEqual([
      crossed,
    ]);
  });

  it('altered bytes, and missing ones unless the gateway gave a wrong length', () => {
    const altered = { ...goodResponse(orderIdOf(1, 0), 0), body: 'altered' as const };
    expect(falsified({ response: altered })).toEqual([
      'crossed: the body is altered and that of o-1-0, not of o-1-0',
    ]);
    const part = { ...altered, body: 'part' as const };
    expect(falsified({ response: part })).toHaveLength(1);
    expect(falsified({ response: part }, { fault: 'length-too-short' })).toEqual([]);
  });

  it('the request id of another request', () => {
    const response = { ...goodResponse(orderIdOf(1, 0), 0), requestId: 'id-1' };
    const other = goodRequest(1);
    expect(found(Object.assign(goodRequest(), { response }), goodProcess(), other)).toEqual([
      'crossed: its request id is that of o-1-1',
    ]);
  });

  it('no surplus response that may have come after the next request, but every one that came before', () => {
    const after = (joined: boolean, milliseconds: number) =>
      falsified({ response: foreign, upstreamRequests: [upstreamRequest('good', { joined, milliseconds })] });
    expect(after(false, 9)).toEqual([]);
    expect(after(false, 11)).toEqual([`${crossed}; a surplus response had come 11 ms before`]);
    expect(after(true, 1)).toEqual([`${crossed}; a surplus response had come with the response before it`]);
  });

  it('no response that such a surplus response displaced, but every other one of an earlier request', () => {
    const first = (milliseconds: number): RequestRecord =>
      Object.assign(goodRequest(0, { operation: 'order-status' }), {
        response: foreign,
        upstreamRequests: [upstreamRequest('good', { joined: false, milliseconds })],
      });
    // Its response is that of the first; the gateway has reset the connection before it read it.
    const second = Object.assign(goodRequest(1, { operation: 'order-status' }), {
      response: goodResponse(orderIdOf(1, 0), 1),
      upstreamRequests: [],
    });
    expect(found(first(9), goodProcess(), second)).toEqual([]);
    expect(found(first(11), goodProcess(), second)).toEqual(
      expect.arrayContaining([expect.stringContaining('lie:'), expect.stringContaining('crossed:')]),
    );
    // Whichever of them was planned first.
    const later = Object.assign(goodRequest(1, { operation: 'order-status' }), {
      response: goodResponse(orderIdOf(1, 7), 1),
      upstreamRequests: [upstreamRequest('good', { joined: false, milliseconds: 9 })],
    });
    const earlier = Object.assign(goodRequest(0, { operation: 'order-status' }), {
      response: goodResponse(orderIdOf(1, 1), 0),
      upstreamRequests: [],
    });
    expect(found(earlier, goodProcess(), later)).toEqual([]);
    const payment = Object.assign(goodRequest(1), {
      response: goodResponse(orderIdOf(1, 0), 1),
      upstreamRequests: [],
    });
    expect(found(first(9), goodProcess(), payment)).not.toEqual([]);
  });
});

describe('the check of responses finds', () => {
  const none = { response: undefined, ending: 'FIN' };

  it('a request without a response', () => {
    expect(falsified(none)).toEqual([
      'lost: no response, the connection ended (FIN); seen by the gateway 1 times, logged as answered',
    ]);
  });

  it('a connection that stays open without one', () => {
    expect(falsified({ ...none, ending: 'timeout' })).toEqual([
      'lost: no response, and the connection stays open; seen by the gateway 1 times, logged as answered',
    ]);
  });

  it('a request that was dropped unread, unless the process was stopping', () => {
    const unread = { ...none, upstreamRequests: [], lines: [] };
    expect(falsified(unread)).toEqual([
      'lost: no response, the connection ended (FIN); seen by the gateway 0 times, logged as nothing',
    ]);
    expect(falsified({ ...unread, endedAt: 10_100 })).toEqual([]);
  });

  it('a handled request of a stopping process', () => {
    expect(falsified({ ...none, endedAt: 10_100 })).toHaveLength(1);
  });

  it('a request that was handled behind a response that said close, and no other', () => {
    expect(falsified({ ...none, behind: 'close' })).toEqual([
      'lost: it was handled behind a response that said close; seen by the gateway 1 times, logged as answered',
    ]);
    expect(falsified({ ...none, behind: 'close', upstreamRequests: [], lines: [] })).toEqual([]);
  });

  it('nothing behind a response that broke off, as long as it is logged', () => {
    expect(falsified({ ...none, behind: 'break' })).toEqual([]);
    expect(falsified({ ...none, behind: 'break', lines: [] })).toEqual([
      'unlogged: the log has no line; seen by the gateway 1 times, no response (FIN)',
    ]);
  });

  it('a response that breaks off though that of the gateway did not', () => {
    const response = { ...goodResponse(orderIdOf(1, 0), 0), complete: false, body: 'part' as const };
    expect(falsified({ response, ending: 'FIN' })).toEqual([
      "lost: the response 200 answered broke off (FIN); the gateway's did not (good)",
    ]);
    expect(falsified({ response, ending: 'FIN' }, { fault: 'large-reset' })).toEqual([]);
    expect(falsified({ response, ending: 'FIN', endedAt: 1_700 })).toEqual([]);
  });

  it('a response that came too late', () => {
    expect(falsified({ endedAt: 3_601 })).toEqual(['late: the response took 3501 ms, and may take 3500 ms']);
  });

  it('nothing where the caller left, or was never connected', () => {
    expect(falsified({ ...none, abandoned: true })).toEqual([]);
    expect(falsified({ ...none, sent: 'nothing', upstreamRequests: [], lines: [] })).toEqual([]);
  });
});

describe('the check of the log finds', () => {
  it('a request without a line', () => {
    expect(falsified({ lines: [] })).toEqual([
      'unlogged: the log has no line; seen by the gateway 1 times, response 200 answered',
    ]);
  });

  it('a request with two lines', () => {
    expect(falsified({ lines: [...loggedAs('answered'), ...loggedAs('answered')] })).toEqual([
      'unlogged: the log has 2 lines: answered, answered',
    ]);
  });

  it('nothing where the log says that it left out lines of connections with two requests at once', () => {
    const rejected = { response: problem('not-sent', 'pipelined'), upstreamRequests: [], lines: [] };
    expect(falsified(rejected)).toHaveLength(1);
    const process = { ...goodProcess(), withoutLine: 1 };
    expect(found(Object.assign(goodRequest(), rejected), process)).toEqual([]);
    expect(found(Object.assign(goodRequest(), { lines: [] }), process)).toHaveLength(1);
  });

  it('nothing where the log is broken', () => {
    const process: ProcessRecord = { ...goodProcess(), log: 'full' };
    expect(found(Object.assign(goodRequest(), { lines: [] }), process)).toEqual([]);
  });

  it('nothing, and no lost response, where the process was killed meanwhile', () => {
    const lost = { response: undefined, ending: 'ECONNRESET', lines: [] };
    const killedAt = (at: number): ProcessRecord => ({
      ...goodProcess(),
      signals: [{ name: 'SIGKILL', at }],
      exit: { code: null, signal: 'SIGKILL' },
    });
    expect(found(Object.assign(goodRequest(), lost), killedAt(150))).toEqual([]);
    expect(found(Object.assign(goodRequest(), lost), killedAt(151))).toEqual([
      'lost: no response, the connection ended (ECONNRESET); seen by the gateway 1 times, logged as nothing',
    ]);
    expect(found(Object.assign(goodRequest(), lost), killedAt(9_000))).toHaveLength(2);
    expect(found(Object.assign(goodRequest(), lost, seenTwice), killedAt(150))).toEqual([
      'doubled: the gateway has seen it 2 times',
    ]);
  });
});

describe('the check of processes finds', () => {
  const of = (changes: Partial<ProcessRecord>): string[] =>
    found(goodRequest(), { ...goodProcess(), ...changes });

  it('one that ended by itself', () => {
    expect(of({ signals: [], exit: { code: 1, signal: null } })).toEqual([
      'process: it ended by itself with exit code 1, signal null',
    ]);
    expect(of({ endedAt: 9_000, exit: { code: 0, signal: null } })).toHaveLength(1);
  });

  it('one that did not end in time, or with a failure', () => {
    expect(of({ endedAt: 17_001 })).toEqual([
      'process: it ended 7001 ms after SIGTERM, and may take 7000 ms',
    ]);
    expect(of({ exit: { code: 1, signal: null } })).toEqual([
      'process: SIGTERM ended it with exit code 1, signal null',
    ]);
    expect(of({ endedAt: undefined, exit: undefined })).toEqual(['process: it is still running']);
    expect(of({ hung: true })).toEqual(['process: it did not react any more, and was killed by the harness']);
  });

  it('one that wrote to standard error, or logged an internal error', () => {
    expect(of({ stderr: 'oops' })).toEqual(['process: it wrote to standard error: oops']);
    expect(of({ internalErrors: ['{"stack":[]}'] })).toEqual([
      'process: it logged an internal error: {"stack":[]}',
    ]);
  });
});
