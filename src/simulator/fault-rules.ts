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
  const orderId = parameter(request, 'client_orderid') ?? parameter(request, 'client-order-id');
  return (
    (rule.operation === undefined || rule.operation === operation) &&
    (rule.login === undefined || rule.login === request.login) &&
    (rule.client_orderid === undefined || rule.client_orderid === orderId)
  );
}
