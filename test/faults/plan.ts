import { Random } from '../support/random.ts';
import { type FaultName, faultNames, faults, type SiteName } from './faults.ts';

const operations = { transfer: 45, 'order-status': 35, 'manager-balance': 20 } as const;
export type OperationName = keyof typeof operations;
const operationNames = ['transfer', 'order-status', 'manager-balance'] as const;

/** What a caller does with its connections, and how often relative to the others. */
const callers = {
  'keep-alive': 50,
  pipelining: 16,
  'half-closing': 10,
  leaving: 16,
  'slow-body': 6,
} as const;
export type CallerKind = keyof typeof callers;
export const callerKinds = ['keep-alive', 'pipelining', 'half-closing', 'leaving', 'slow-body'] as const;

/** A second attempt mostly succeeds. */
export const retryFaults: readonly FaultName[] = [
  ...Array<FaultName>(12).fill('good'),
  'read-reset',
  'body-reset',
  'surplus-response',
  'status-500',
];

/** One request of a caller, with an order ID that no other request has. */
export interface RequestPlan {
  readonly index: number;
  readonly orderId: string;
  readonly operation: OperationName;
  readonly site: SiteName;
  /** What the gateway does with the first attempt. */
  readonly fault: FaultName;
  readonly caller: CallerKind;
  /** Which request of its connection it is, from 0. */
  readonly position: number;
  /** Bytes of the form besides its parameters. */
  readonly padding: number;
  readonly chunked: boolean;
}

/** What one caller does over one connection, or over several one after the other. */
export interface Session {
  readonly caller: CallerKind;
  readonly requests: readonly RequestPlan[];
  readonly random: Random;
}

export interface PlanOptions {
  readonly requests: number;
  readonly seed: number;
}

/** The same sessions for the same options. */
export function* sessionsOf(options: PlanOptions): Generator<Session> {
  let index = 0;
  for (let session = 0; index < options.requests; session += 1) {
    const random = new Random(options.seed, 'session', session);
    const caller = random.weighted(callerKinds, (kind) => callers[kind]);
    const count = Math.min(requestsOf(caller, random), options.requests - index);
    const first = index;
    const requests = Array.from({ length: count }, (_, position) =>
      planRequest(options, { index: first + position, caller, position }, random),
    );
    index += count;
    yield { caller, requests, random };
  }
}

function requestsOf(caller: CallerKind, random: Random): number {
  if (caller === 'keep-alive') return random.chance(0.5) ? 1 : random.int(3, 12);
  if (caller === 'pipelining') return random.int(2, 8);
  return caller === 'half-closing' && random.chance(0.4) ? random.int(2, 4) : 1;
}

function planRequest(
  options: PlanOptions,
  place: Pick<RequestPlan, 'index' | 'caller' | 'position'>,
  random: Random,
): RequestPlan {
  const fault = random.weighted(faultNames, (name) => faults[name].weight);
  const isEarly = fault === 'early-response';
  return {
    ...place,
    orderId: `o-${options.seed}-${place.index}`,
    operation: random.weighted(operationNames, (name) => operations[name]),
    fault,
    site: faults[fault].site ?? (random.chance(0.15) ? 'secure' : 'plain'),
    padding: isEarly ? random.int(400_000, 1_000_000) : random.chance(0.1) ? random.int(1_000, 60_000) : 0,
    chunked: random.chance(0.15),
  };
}

/** The number of the request in an order ID. */
export function indexOf(orderId: string): number {
  return Number(/^o-\d+-(\d+)$/.exec(orderId)?.[1] ?? -1);
}
