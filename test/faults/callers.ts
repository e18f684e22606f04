import { setTimeout as wait } from 'node:timers/promises';
import type { Random } from '../support/random.ts';
import { codeOf, formRequest, RawConnection } from '../support/raw-http.ts';
import type { RawResponse } from '../support/response-reader.ts';
import { inspectBody } from './gateway-response.ts';
import type { ProcessRecord, ReceivedResponse, RequestRecord } from './ledger.ts';
import type { CallerKind, OperationName, RequestPlan, Session } from './plan.ts';

interface CallerOptions {
  /** Milliseconds after which a response counts as lost. */
  readonly patience: number;
  /** Waits for a process that accepts new connections. */
  readonly choose: (random: Random) => Promise<{ readonly url: string; readonly process: ProcessRecord }>;
  readonly recordOf: (plan: RequestPlan) => RequestRecord;
}

/** What one caller does, from its first connection to its last; records what it sent and received. */
export async function runSession(session: Session, options: CallerOptions): Promise<void> {
  await sessions[session.caller](session, options);
}

type Run = (session: Session, options: CallerOptions) => Promise<void>;

const sessions: Readonly<Record<CallerKind, Run>> = {
  'keep-alive': keepAlive,
  pipelining: (session, options) => together(session, options, false),
  'half-closing': (session, options) => together(session, options, true),
  leaving,
  'slow-body': slowBody,
};

/** Over one connection as long as it is open, each after the response to the previous one. */
async function keepAlive({ requests, random }: Session, options: CallerOptions): Promise<void> {
  let connection: RawConnection | undefined;
  let process: ProcessRecord | undefined;
  for (const plan of requests) {
    const record = options.recordOf(plan);
    if (process !== undefined) record.process = process;
    connection ??= await connect([record], options, random);
    if (connection === undefined) continue;
    connection.send(bytesOf(plan).join(''));
    written(record);
    await take(record, connection, options.patience);
    process = record.process;
    if (plan === requests.at(-1)) finish(record, connection);
    else if (record.response?.saysClose === false && record.response.complete) {
      await wait(random.int(0, 40));
      continue;
    }
    connection.close();
    connection = process = undefined;
  }
}

/** Sends all requests before the first response, then half-closes the connection if wanted. */
async function together(
  { requests, random }: Session,
  options: CallerOptions,
  halfClose: boolean,
): Promise<void> {
  const records = requests.map(options.recordOf);
  const connection = await connect(records, options, random);
  if (connection === undefined) return;
  const pause = random.pick([0, 20]);
  for (const { plan } of records) {
    connection.send(bytesOf(plan).join(''));
    if (pause > 0) await wait(random.int(0, pause));
  }
  if (halfClose) connection.finish();
  for (const record of records) written(record);
  await takeAll(records, connection, options.patience);
}

/** The responses in the order of the requests; there are none after one that says close, or is truncated. */
async function takeAll(
  records: readonly RequestRecord[],
  connection: RawConnection,
  patience: number,
): Promise<void> {
  let behind: RequestRecord['behind'] = 'nothing';
  for (const [index, record] of records.entries()) {
    record.behind = behind;
    // After the end, wait only briefly: a further response would be there already.
    await take(record, connection, behind === 'nothing' ? patience : 200);
    if (record.ending === 'timeout' && behind === 'nothing') {
      // A response that comes later would count as that of the next request.
      for (const one of records.slice(index + 1)) leave(one);
      return connection.close();
    }
    if (record.response?.complete === false) behind = 'break';
    else if (record.response?.saysClose === true && behind === 'nothing') behind = 'close';
  }
  const last = records.at(-1);
  if (last !== undefined) finish(last, connection);
}

/** Leaves at a random moment, also before the request is complete. */
async function leaving({ requests, random }: Session, options: CallerOptions): Promise<void> {
  for (const plan of requests) {
    const record = options.recordOf(plan);
    const connection = await connect([record], options, random);
    if (connection === undefined) continue;
    const moment = random.pick(['head', 'body', 'sent', 'waiting', 'response'] as const);
    const [head, body] = bytesOf(plan);
    const part = { head: random.int(1, head.length), body: head.length + random.int(0, body.length - 1) };
    written(record);
    if (moment === 'head' || moment === 'body') record.sent = 'part';
    connection.send(
      (head + body).slice(0, moment === 'head' || moment === 'body' ? part[moment] : undefined),
    );
    if (moment === 'response') await connection.received(1, options.patience);
    else if (moment !== 'sent') await wait(random.int(0, 150));
    if (random.chance(0.5)) connection.close();
    else connection.reset();
    leave(record);
  }
}

async function slowBody({ requests, random }: Session, options: CallerOptions): Promise<void> {
  for (const plan of requests) {
    const record = options.recordOf(plan);
    const connection = await connect([record], options, random);
    if (connection === undefined) continue;
    const [head, body] = bytesOf(plan);
    connection.send(head);
    record.sent = 'part';
    const size = Math.ceil(body.length / random.int(2, 6));
    for (let at = 0; at < body.length; at += size) {
      await wait(random.int(5, 120));
      connection.send(body.slice(at, at + size));
    }
    written(record);
    await take(record, connection, options.patience);
    finish(record, connection);
  }
}

/** For all these requests; `undefined` if it cannot be made. */
async function connect(
  records: readonly RequestRecord[],
  { choose }: CallerOptions,
  random: Random,
): Promise<RawConnection | undefined> {
  const { url, process } = await choose(random);
  const connection = await RawConnection.open(url).catch(codeOf);
  for (const record of records) {
    record.process = process;
    if (typeof connection === 'string') record.ending = connection;
  }
  return typeof connection === 'string' ? undefined : connection;
}

function written(record: RequestRecord): void {
  record.sent = 'whole';
  record.sentAt = performance.now();
}

function leave(record: RequestRecord): void {
  record.abandoned = true;
  record.endedAt = performance.now();
}

async function take(record: RequestRecord, connection: RawConnection, patience: number): Promise<void> {
  const response = await connection.responseOrEnd(patience);
  record.endedAt = performance.now();
  const ending = typeof response === 'string' ? response : connection.ending;
  if (typeof response !== 'string') record.response = received(response);
  if (record.response?.complete !== true && ending !== undefined) record.ending = ending;
}

/** There must be no bytes behind the last response of a connection. */
function finish(last: RequestRecord, connection: RawConnection): void {
  last.surplus = connection.pending > 0;
  connection.close();
}

const paths: Readonly<Record<OperationName, string>> = {
  transfer: '/api/v4/transfer/',
  'order-status': '/api/v4/status/',
  'manager-balance': '/api/v2/get-balance/manager/acme/',
};

/** Head and body. The order ID is also the request's own ID, by which its log line is found. */
function bytesOf({ operation, orderId, padding, site, chunked }: RequestPlan): readonly [string, string] {
  const login = operation === 'order-status' ? 'login=acme&' : '';
  const form = `${login}client_orderid=${orderId}&amount=12.50&note=${'n'.repeat(padding)}`;
  const body = chunked ? `${form.length.toString(16)}\r\n${form}\r\n0\r\n\r\n` : form;
  const lines = [
    `X-Request-Id: ${orderId}`,
    ...(chunked ? ['Transfer-Encoding: chunked'] : []),
    ...(operation === 'transfer' ? ['Countersign-Login: acme'] : []),
  ];
  const whole = formRequest(`/${site}/gw${paths[operation]}${orderId}`, body, lines);
  return [whole.slice(0, -body.length), body];
}

/** What the ledger records of a response. */
function received({ status, headers, body, complete }: RawResponse): ReceivedResponse {
  const outcome = headers['countersign-outcome'];
  const isOwn = headers['content-type']?.startsWith('application/problem+json') ?? false;
  const { orderId, state } =
    outcome === 'answered' && !isOwn ? inspectBody(body) : ({ orderId: undefined, state: 'none' } as const);
  return {
    status,
    outcome,
    problem: isOwn && complete ? JSON.parse(body.toString()) : undefined,
    requestId: headers['x-request-id'],
    saysClose: headers['connection']?.toLowerCase() === 'close',
    complete,
    bodyOf: orderId,
    body: state,
  };
}
