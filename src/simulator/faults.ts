import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { flag, matching } from '../config/schema/values.ts';
import { identifierPattern } from '../identifiers.ts';
import { htmlResponse, type SimulatorResponse, writeResponse } from './response.ts';
import { orderIdOf, type VerifiedRequest } from './verified-request.ts';

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
      .enum(['status-403', 'status-429', 'status-500', 'status-502', 'status-503', 'reset'])
      .optional()
      .describe(
        '`status-403` (always before the effect), `status-429`, `status-500`, `status-502`, `status-503`, or `reset`: no response.',
      ),
    beforeEffect: flag.describe('With a fault: no order is made.'),
  })
  .refine(({ fault, delaySeconds }) => fault !== undefined || delaySeconds > 0, {
    error: 'has no effect: add fault or delaySeconds',
  })
  .refine(({ fault, beforeEffect }) => !beforeEffect || fault !== undefined, {
    path: ['beforeEffect'],
    error: 'requires fault',
  });

type FaultRule = z.output<typeof faultRule>;
/** How a response fails to be what the gateway wanted to send. */
export type Fault = Partial<Pick<FaultRule, 'delaySeconds' | 'fault'>>;

const maxFaults = 1000;

/** The faults that apply now, whose `times` count down: those added while running, oldest first, then those of the scenario. */
export class FaultRules {
  readonly #scenario: readonly FaultRule[];
  #added: readonly FaultRule[] = [];
  #ofScenario: readonly FaultRule[];

  constructor(scenario: readonly FaultRule[]) {
    this.#scenario = scenario;
    this.#ofScenario = scenario;
  }

  list(): readonly FaultRule[] {
    return [...this.#added, ...this.#ofScenario];
  }

  /** @returns whether there was room for it */
  add(rule: FaultRule): boolean {
    if (this.list().length >= maxFaults) return false;
    this.#added = [...this.#added, rule];
    return true;
  }

  /** Removes all faults, also those of the scenario. */
  clear(): void {
    this.#added = [];
    this.#ofScenario = [];
  }

  /** Returns to the faults of the scenario. */
  reset(): void {
    this.#added = [];
    this.#ofScenario = this.#scenario;
  }

  /** The first fault that matches the request, which uses it once. */
  take(operation: string, request: VerifiedRequest): FaultRule | undefined {
    const found = this.list().find((rule) => matches(rule, operation, request));
    const { times } = found ?? {};
    if (times === undefined) return found;
    const used = (rule: FaultRule) =>
      rule !== found ? rule : times > 1 ? { ...rule, times: times - 1 } : [];
    this.#added = this.#added.flatMap(used);
    this.#ofScenario = this.#ofScenario.flatMap(used);
    return found;
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

/** Sends the response, or simulates the fault. */
export async function deliver(
  response: ServerResponse,
  {
    content,
    fault: { delaySeconds = 0, fault } = {},
  }: { readonly content: SimulatorResponse; readonly fault?: Fault },
): Promise<void> {
  // Does not keep the process alive.
  if (delaySeconds > 0) await sleep(delaySeconds * 1000, undefined, { ref: false });
  if (response.destroyed) return;
  if (fault === 'reset') response.socket?.resetAndDestroy();
  else writeResponse(response, content);
}
