import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { flag, matching } from '../config/schema/values.ts';
import { identifierPattern } from '../identifiers.ts';
import { htmlResponse, type SimulatorResponse, writeHead, writeResponse } from './response.ts';
import { orderIdOf, type VerifiedRequest } from './verified-request.ts';

const statuses = ['status-403', 'status-429', 'status-500', 'status-502', 'status-503'] as const;

export const seconds = z.number({ error: 'must be a number of seconds' }).min(0).max(86_400);

/** A fault of the gateway or the network, and the requests that it applies to: in a scenario, or added while running. */
export const faultRule = z
  .strictObject({
    operation: z.string().optional().describe('Only requests of this operation.'),
    login: matching(identifierPattern, 'must be a login').optional().describe('Only requests of this login.'),
    client_orderid: z.string().optional().describe('Only requests for this order.'),
    times: z.int().min(1).max(1_000_000).optional().describe('Requests it applies to; all if absent.'),
    delaySeconds: seconds.default(0).describe('Delay of the response, after the effect.'),
    fault: z
      .enum([...statuses, 'reset', 'garbage', 'drip', 'cut'])
      .optional()
      .describe(
        '`status-403` (always before the effect), `status-429`, `status-500`, `status-502`, `status-503`, `reset`, `garbage` (not HTTP), `drip` (slow) or `cut` (ends in the body).',
      ),
    beforeEffect: flag.describe('With a status, `reset` or `garbage`: no order is made.'),
    cutAfterBytes: z
      .int()
      .min(0)
      .max(1_048_576)
      .optional()
      .describe('With `cut`: bytes of the body that are sent.'),
  })
  .refine(({ fault, delaySeconds }) => fault !== undefined || delaySeconds > 0, {
    error: 'has no effect: add fault or delaySeconds',
  })
  // Only faults whose response does not depend on the effect.
  .refine(({ fault = 'cut', beforeEffect }) => !beforeEffect || (fault !== 'drip' && fault !== 'cut'), {
    path: ['beforeEffect'],
    error: 'requires fault to be a status, reset or garbage',
  })
  .refine(({ fault, cutAfterBytes }) => (fault === 'cut') === (cutAfterBytes !== undefined), {
    path: ['cutAfterBytes'],
    error: 'belongs to fault: cut, so set both or neither',
  });

type FaultRule = z.output<typeof faultRule>;
/** How a response fails to be what the gateway wanted to send. */
export type Fault = Partial<Pick<FaultRule, 'delaySeconds' | 'fault' | 'cutAfterBytes'>>;

export interface ActiveFault {
  /** From 1; a reset starts again. */
  readonly id: number;
  readonly rule: FaultRule;
  /** How many more requests it applies to; `undefined` if it applies to all. */
  readonly remaining: number | undefined;
}

const maxFaults = 1000;

/** The faults that apply now: those added while running, oldest first, then those of the scenario. */
export class FaultRules {
  readonly #scenario: readonly FaultRule[];
  #active: readonly ActiveFault[] = [];
  #lastId = 0;

  constructor(scenario: readonly FaultRule[]) {
    this.#scenario = scenario;
    this.reset();
  }

  list(): readonly ActiveFault[] {
    return this.#active;
  }

  /** @returns `undefined` if there are too many faults already */
  add(rule: FaultRule): ActiveFault | undefined {
    if (this.#active.length >= maxFaults) return undefined;
    const added = this.#activate(rule);
    const isOfScenario = ({ id }: ActiveFault): boolean => id <= this.#scenario.length;
    this.#active = [...this.#active, added].sort((a, b) => Number(isOfScenario(a)) - Number(isOfScenario(b)));
    return added;
  }

  /** @returns whether there was one with this ID */
  remove(id: number): boolean {
    const before = this.#active.length;
    this.#active = this.#active.filter((fault) => fault.id !== id);
    return this.#active.length < before;
  }

  /** Removes all faults, also those of the scenario. */
  clear(): void {
    this.#active = [];
  }

  /** Returns to the faults of the scenario. */
  reset(): void {
    this.#lastId = 0;
    this.#active = this.#scenario.map((rule) => this.#activate(rule));
  }

  /** The first fault that matches the request, which uses it once. */
  take(operation: string, request: VerifiedRequest): ActiveFault | undefined {
    const found = this.#active.find(({ rule }) => matches(rule, operation, request));
    if (found?.remaining !== undefined) {
      const left = { ...found, remaining: found.remaining - 1 };
      this.#active = this.#active.flatMap((one) => (one !== found ? one : left.remaining > 0 ? left : []));
    }
    return found;
  }

  #activate(rule: FaultRule): ActiveFault {
    this.#lastId += 1;
    return { id: this.#lastId, rule, remaining: rule.times };
  }
}

function matches(rule: FaultRule, operation: string, request: VerifiedRequest): boolean {
  const actual = { operation, login: request.login, client_orderid: orderIdOf(request) };
  return (['operation', 'login', 'client_orderid'] as const).every(
    (field) => rule[field] === undefined || rule[field] === actual[field],
  );
}

/** What is sent in place of the response, for a fault that is a status. */
export const statusFaults: ReadonlyMap<Fault['fault'], SimulatorResponse> = new Map([
  ['status-429', htmlResponse(429, 'Too many requests')],
  ['status-500', htmlResponse(500, 'Internal error')],
  ['status-502', htmlResponse(502, 'Bad gateway')],
  ['status-503', htmlResponse(503, 'Service unavailable')],
]);

const secondsPerByte = 0.1;

/** Sends the response, or simulates the fault. */
export async function deliver(
  response: ServerResponse,
  {
    content,
    fault: { delaySeconds = 0, fault, cutAfterBytes = 0 } = {},
  }: { readonly content: SimulatorResponse; readonly fault?: Fault },
): Promise<void> {
  await pause(delaySeconds);
  if (response.destroyed) return;
  if (fault === 'cut') cut(response, content, cutAfterBytes);
  else if (fault === 'drip') await drip(response, content);
  else if (fault === 'reset') response.socket?.resetAndDestroy();
  else if (fault === 'garbage') response.socket?.end('this is not HTTP\r\n\r\n');
  else writeResponse(response, content);
}

async function drip(response: ServerResponse, content: SimulatorResponse): Promise<void> {
  writeHead(response, content);
  for (const byte of Buffer.from(content.body)) {
    await pause(secondsPerByte);
    if (response.destroyed) return;
    response.write(Buffer.of(byte));
  }
  response.end();
}

/** A body that is not longer than that is complete. */
function cut(response: ServerResponse, content: SimulatorResponse, bytes: number): void {
  const body = Buffer.from(content.body);
  if (body.length <= bytes) return writeResponse(response, content);
  writeHead(response, content);
  response.flushHeaders();
  response.write(body.subarray(0, bytes));
  response.socket?.end();
}

/** Does not keep the process alive. */
async function pause(seconds: number): Promise<void> {
  if (seconds > 0) await sleep(seconds * 1000, undefined, { ref: false });
}
