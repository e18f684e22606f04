import { setTimeout as wait } from 'node:timers/promises';
import type { Random } from '../support/random.ts';
import { codeOf, RawConnection } from '../support/raw-http.ts';
import { received, requestBytes } from './caller-request.ts';
import type { Instance } from './instance.ts';
import type { RequestRecord } from './ledger.ts';
import type { CallerKind, RequestPlan, Session } from './plan.ts';

interface CallerOptions {
  readonly seed: number;
  /** Milliseconds after which a response counts as lost. */
  readonly patience: number;
  /** Waits for an instance that accepts new connections. */
  readonly choose: (random: Random) => Promise<Instance>;
  readonly recordOf: (plan: RequestPlan) => RequestRecord;
}

/** What one caller does, from its first connection to its last; records what it sent and received. */
export async function runSession(session: Session, options: CallerOptions): Promise<void> {
  await sessions[session.caller](session, options);
}

type Run = (session: Session, options: CallerOptions) => Promise<void>;

/** A request that was sent: its record and its connection. */
interface Sent {
  readonly record: RequestRecord;
  readonly connection: RawConnection;
}

const sessions: Readonly<Record<CallerKind, Run>> = {
  single: (session, options) => oneByOne(session, options, []),
  'connection-close': (session, options) => oneByOne(session, options, ['Connection: close']),
  'keep-alive': (session, options) => oneByOne(session, options, []),
  pipelining: (session, options) => together(session, options, false),
  'half-closing': (session, options) => together(session, options, true),
  'hanging-up': (session, options) => leaving(session, options, (connection) => connection.close()),
  resetting: (session, options) => leaving(session, options, (connection) => connection.reset()),
  'slow-body': slowBody,
  'stalled-body': stalledBody,
  'slow-reader': slowReader,
};

/** Over one connection as long as it is open, each after the response to the previous one. */
async function oneByOne(
  { requests, random }: Session,
  options: CallerOptions,
  lines: readonly string[],
): Promise<void> {
  let open: { connection: RawConnection; process: number | undefined } | undefined;
  for (const plan of requests) {
    const record = options.recordOf(plan);
    open ??= await connectTo(options, random, record);
    if (open === undefined) continue;
    record.process = open.process;
    const { connection } = open;
    send({ record, connection }, options.seed, lines);
    await take({ record, connection }, options.patience);
    if (record.response?.saysClose !== false || !record.response.complete) {
      connection.close();
      open = undefined;
    } else if (plan !== requests.at(-1)) {
      await wait(random.int(0, 40));
    }
  }
  if (open !== undefined) finish(open.connection, options.recordOf(requests[requests.length - 1]!));
}

/** Sends all requests before the first response, then half-closes the connection if wanted. */
async function together(
  { requests, random }: Session,
  options: CallerOptions,
  halfClose: boolean,
): Promise<void> {
  const records = requests.map(options.recordOf);
  const [first] = records;
  const open = first && (await connectTo(options, random, first));
  if (open === undefined) return;
  const { connection } = open;
  const texts = requests.map((plan) => requestBytes(plan, options.seed));
  for (const record of records) record.process = open.process;
  if (random.chance(0.5)) {
    connection.send(texts.map(({ head, body }) => head + body).join(''));
  } else {
    for (const { head, body } of texts) {
      connection.send(head + body);
      if (random.chance(0.5)) await wait(random.int(0, 20));
    }
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
  for (const record of records) {
    record.behind = behind;
    // After the end, wait only briefly: a further response would be there already.
    await take({ record, connection }, behind === 'nothing' ? patience : 200);
    // A response that comes later would count as that of the next request.
    if (record.ending === 'timeout' && behind === 'nothing') return leaveBehind(record, records, connection);
    if (record.response?.complete === false) behind = 'break';
    else if (record.response?.saysClose === true && behind === 'nothing') behind = 'close';
  }
  const last = records.at(-1);
  if (last !== undefined) finish(connection, last);
}

/** The caller has given up one response, and so those behind it. */
function leaveBehind(
  given: RequestRecord,
  records: readonly RequestRecord[],
  connection: RawConnection,
): void {
  connection.close();
  for (const record of records.slice(records.indexOf(given) + 1)) {
    record.abandoned = true;
    record.endedAt = performance.now();
  }
}

/** One request per connection. @param act sends it, and behaves as this kind of caller */
async function overEach(
  { requests, random }: Session,
  options: CallerOptions,
  act: (sent: Sent, text: { readonly head: string; readonly body: string }) => Promise<void>,
): Promise<void> {
  for (const plan of requests) {
    const record = options.recordOf(plan);
    const open = await connectTo(options, random, record);
    if (open === undefined) continue;
    const { connection } = open;
    record.process = open.process;
    await act({ record, connection }, requestBytes(plan, options.seed));
  }
}

/** Leaves at a random moment. */
function leaving(
  session: Session,
  options: CallerOptions,
  leave: (connection: RawConnection) => void,
): Promise<void> {
  const { random } = session;
  return overEach(session, options, async ({ record, connection }, { head, body }) => {
    record.abandoned = true;
    const moment = random.pick(['head', 'body', 'sent', 'waiting', 'response'] as const);
    const text = head + body;
    const share = moment === 'head' ? head.length - 1 : text.length - 1;
    const part = moment === 'head' || moment === 'body';
    connection.send(part ? text.slice(0, random.int(1, share)) : text);
    record.sent = part ? 'part' : 'whole';
    record.sentAt = performance.now();
    if (moment === 'response') await connection.received(1, options.patience);
    else if (moment !== 'sent') await wait(random.int(0, 150));
    leave(connection);
    record.endedAt = performance.now();
  });
}

function slowBody(session: Session, options: CallerOptions): Promise<void> {
  const { random } = session;
  return overEach(session, options, async ({ record, connection }, { head, body }) => {
    connection.send(head);
    record.sent = 'part';
    const pieces = random.int(2, 6);
    const size = Math.ceil(body.length / pieces);
    for (let at = 0; at < body.length; at += size) {
      await wait(random.int(5, 120));
      connection.send(body.slice(at, at + size));
    }
    written(record);
    await takeLast({ record, connection }, options.patience);
  });
}

/** The body is never complete, so nothing may be sent. */
function stalledBody(session: Session, options: CallerOptions): Promise<void> {
  return overEach(session, options, async ({ record, connection }, { head, body }) => {
    connection.send(head + body.slice(0, Math.floor(body.length / 2)));
    record.sent = 'part';
    record.sentAt = performance.now();
    await takeLast({ record, connection }, options.patience);
  });
}

function slowReader(session: Session, options: CallerOptions): Promise<void> {
  return overEach(session, options, async ({ record, connection }, { head, body }) => {
    connection.send(head + body);
    written(record);
    await connection.received(1, options.patience);
    connection.pause();
    await wait(session.random.int(100, 500));
    connection.socket.resume();
    await takeLast({ record, connection }, options.patience);
  });
}

async function connectTo(
  options: CallerOptions,
  random: Random,
  record: RequestRecord,
): Promise<{ connection: RawConnection; process: number | undefined } | undefined> {
  const instance = await options.choose(random);
  const connection = await RawConnection.open(instance.url).catch(codeOf);
  if (typeof connection !== 'string') return { connection, process: instance.process?.id };
  record.process = instance.process?.id;
  record.ending = connection;
  record.endedAt = performance.now();
  return undefined;
}

function send({ record, connection }: Sent, seed: number, lines: readonly string[]): void {
  const { head, body } = requestBytes(record.plan, seed, lines);
  connection.send(head + body);
  written(record);
}

function written(record: RequestRecord): void {
  record.sent = 'whole';
  record.sentAt = performance.now();
}

async function take({ record, connection }: Sent, patience: number): Promise<void> {
  const response = await connection.responseOrEnd(patience);
  record.endedAt = performance.now();
  if (typeof response === 'string') record.ending = response;
  else record.response = received(response);
  if (record.response?.complete === false) record.ending = connection.ending;
}

/** The only response of a connection. */
async function takeLast(sent: Sent, patience: number): Promise<void> {
  await take(sent, patience);
  finish(sent.connection, sent.record);
}

/** Records further bytes after the last response of a connection; there must be none. */
function finish(connection: RawConnection, last: RequestRecord): void {
  if (connection.pending > 0) last.surplusResponses += 1;
  connection.close();
}
