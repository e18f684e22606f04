import { Random } from '../support/random.ts';
import { type FaultName, faultNames, faultRow, type SiteName } from './fault-table.ts';

export const operations = ['transfer', 'order-status', 'manager-balance'] as const;
export type OperationName = (typeof operations)[number];

/** What a caller does with its connection. */
export const callerKinds = [
  'single',
  'connection-close',
  'keep-alive',
  'pipelining',
  'half-closing',
  'hanging-up',
  'resetting',
  'slow-body',
  'stalled-body',
  'slow-reader',
] as const;
export type CallerKind = (typeof callerKinds)[number];

const operationWeights: Readonly<Record<OperationName, number>> = {
  transfer: 45,
  'order-status': 35,
  'manager-balance': 20,
};

const callerWeights: Readonly<Record<CallerKind, number>> = {
  single: 22,
  'connection-close': 8,
  'keep-alive': 20,
  pipelining: 16,
  'half-closing': 10,
  'hanging-up': 8,
  resetting: 8,
  'slow-body': 5,
  'stalled-body': 1,
  'slow-reader': 1,
};

/** A second attempt mostly succeeds. */
const retryFaults: readonly FaultName[] = [
  ...Array<FaultName>(12).fill('good'),
  'read-reset',
  'body-reset',
  'surplus-joined',
  'status-500',
];

/** One request of a caller, with an order id that no other request has. */
export interface RequestPlan {
  readonly index: number;
  readonly orderId: string;
  readonly operation: OperationName;
  readonly site: SiteName;
  /** What the gateway does with the first attempt. */
  readonly fault: FaultName;
  readonly caller: CallerKind;
  readonly session: number;
  /** Which request of its connection it is, from 0. */
  readonly position: number;
  /** Bytes of the form besides its parameters. */
  readonly padding: number;
  readonly chunked: boolean;
}

/** What one caller does over one connection, or over several one after the other. */
export interface Session {
  readonly index: number;
  readonly caller: CallerKind;
  readonly requests: readonly RequestPlan[];
  readonly random: Random;
}

export interface PlanOptions {
  readonly requests: number;
  readonly seed: number;
  /** Only this fault, beside good responses. */
  readonly only: FaultName | undefined;
  readonly caller: CallerKind | undefined;
  /** Whether certificates could be made. */
  readonly tls: boolean;
}

/** The same sessions for the same options. */
export function* sessionsOf(options: PlanOptions): Generator<Session> {
  let index = 0;
  for (let session = 0; index < options.requests; session += 1) {
    const random = new Random(options.seed, 'session', session);
    const caller = options.caller ?? random.weighted(callerKinds, (kind) => callerWeights[kind]);
    const count = Math.min(requestsOf(caller, random), options.requests - index);
    const requests = Array.from({ length: count }, (_, position) =>
      planRequest(options, { index: index + position, session, caller, position }, random),
    );
    index += count;
    yield { index: session, caller, requests, random };
  }
}

function requestsOf(caller: CallerKind, random: Random): number {
  if (caller === 'keep-alive') return random.int(3, 12);
  if (caller === 'pipelining') return random.int(2, 8);
  if (caller === 'half-closing') return random.chance(0.6) ? 1 : random.int(2, 4);
  return 1;
}

function planRequest(
  options: PlanOptions,
  place: { index: number; session: number; caller: CallerKind; position: number },
  random: Random,
): RequestPlan {
  const fault = place.caller === 'slow-reader' ? 'good-large' : chooseFault(options, random);
  const { site } = faultRow(fault);
  const secure = options.tls && random.chance(0.15);
  const early = fault.startsWith('early-response');
  return {
    ...place,
    orderId: orderIdOf(options.seed, place.index),
    // The flapping site is about pooled connections, which only reads use.
    operation:
      site === 'flapping' ? 'order-status' : random.weighted(operations, (name) => operationWeights[name]),
    fault,
    site: site ?? (secure ? 'secure' : 'plain'),
    padding: early ? random.int(400_000, 1_000_000) : random.chance(0.1) ? random.int(1_000, 60_000) : 0,
    chunked: random.chance(0.15),
  };
}

function chooseFault({ only, tls }: PlanOptions, random: Random): FaultName {
  const companion = only?.endsWith('refused') ? 'good-while-flapping' : 'good';
  if (only !== undefined) return random.chance(0.5) ? only : companion;
  const available = faultNames.filter((name) => tls || !name.startsWith('tls-'));
  return random.weighted(available, (name) => faultRow(name).weight);
}

/** What the gateway does with an attempt after the first. */
export function faultOfRetry(seed: number, orderId: string, attempt: number): FaultName {
  return new Random(seed, 'retry', orderId, attempt).pick(retryFaults);
}

export function orderIdOf(seed: number, index: number): string {
  return `o-${seed}-${index}`;
}

/** The number of the request in an order id; `undefined` where the text is none. */
export function indexOf(orderId: string | undefined): number | undefined {
  const [, digits] = /^o-\d+-(\d+)$/.exec(orderId ?? '') ?? [];
  return digits === undefined ? undefined : Number(digits);
}

/**
 * W3C Trace Context. Finds the request of a log line, which has no order id. Of letters only, since the log leaves out an
 * id with so many decimal digits that they could be a card number.
 */
export function traceIdOf(seed: number, index: number): string {
  return `${letters(seed + 1)}${letters(index)}`;
}

/** The number of the request in a trace id. */
export function indexOfTrace(traceId: string): number {
  const digits = traceId.slice(16).replace(/[a-f]/g, (letter) => String(alphabet.indexOf(letter)));
  return Number.parseInt(digits, alphabet.length);
}

const alphabet = 'abcdef';

/** 16 hex digits that are letters. */
function letters(value: number): string {
  return value
    .toString(alphabet.length)
    .padStart(16, '0')
    .replace(/\d/g, (digit) => alphabet.charAt(Number(digit)));
}
