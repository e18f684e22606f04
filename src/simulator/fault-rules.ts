import type { FaultRule } from './fault-rule.ts';
import { parameter, type VerifiedRequest } from './verified-request.ts';

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
  #added: ActiveFault[] = [];
  #initial: ActiveFault[] = [];
  #lastId = 0;

  constructor(scenario: readonly FaultRule[]) {
    this.#scenario = scenario;
    this.reset();
  }

  list(): readonly ActiveFault[] {
    return [...this.#added, ...this.#initial];
  }

  /** @returns `undefined` if there are too many faults already */
  add(rule: FaultRule): ActiveFault | undefined {
    if (this.list().length >= maxFaults) return undefined;
    const added = this.#activate(rule);
    this.#added.push(added);
    return added;
  }

  /** @returns whether there was one with this ID */
  remove(id: number): boolean {
    const before = this.list().length;
    this.#update(id, () => undefined);
    return this.list().length < before;
  }

  /** Removes all faults, also those of the scenario. */
  clear(): void {
    this.#added = [];
    this.#initial = [];
  }

  /** Returns to the faults of the scenario. */
  reset(): void {
    this.#lastId = 0;
    this.#added = [];
    this.#initial = this.#scenario.map((rule) => this.#activate(rule));
  }

  /** The first fault that matches the request, which uses it once. */
  take(operation: string, request: VerifiedRequest): ActiveFault | undefined {
    const found = this.list().find(({ rule }) => matches(rule, operation, request));
    if (found?.remaining !== undefined) this.#update(found.id, useOnce);
    return found;
  }

  #activate(rule: FaultRule): ActiveFault {
    this.#lastId += 1;
    return { id: this.#lastId, rule, remaining: rule.times };
  }

  /** Removes the fault if `change` returns nothing. */
  #update(id: number, change: (fault: ActiveFault) => ActiveFault | undefined): void {
    const updated = (faults: readonly ActiveFault[]): ActiveFault[] =>
      faults.flatMap((fault) => (fault.id === id ? (change(fault) ?? []) : fault));
    this.#added = updated(this.#added);
    this.#initial = updated(this.#initial);
  }
}

function useOnce({ remaining = 1, ...fault }: ActiveFault): ActiveFault | undefined {
  return remaining > 1 ? { ...fault, remaining: remaining - 1 } : undefined;
}

function matches(rule: FaultRule, operation: string, request: VerifiedRequest): boolean {
  const orderId = parameter(request, 'client_orderid') ?? parameter(request, 'client-order-id');
  return (
    (rule.operation === undefined || rule.operation === operation) &&
    (rule.login === undefined || rule.login === request.login) &&
    (rule.client_orderid === undefined || rule.client_orderid === orderId)
  );
}
