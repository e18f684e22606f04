import type { KeyKind } from '../../src/oauth1/methods.ts';
import { kindOf, type OperationName, operationNames } from './schedule.ts';
import type { Gateway, Vault } from './world.ts';

const kinds: readonly KeyKind[] = ['control_key', 'private_key'];

/** Since when each key is both readable in Vault and accepted by all nodes of the gateway. */
export class Conditions {
  readonly #vault: Vault;
  readonly #gateway: Gateway;
  readonly #usableSince = new Map<string, number>();
  readonly #operableSince = new Map<OperationName, number>();

  constructor(vault: Vault, gateway: Gateway) {
    this.#vault = vault;
    this.#gateway = gateway;
    this.update(Number.NEGATIVE_INFINITY);
  }

  /** Must be called after every change of Vault or the gateway. */
  update(now: number): void {
    for (const kind of kinds) {
      const readable = this.#vault.readable(kind);
      const usable = new Set(this.#gateway.accepted(kind).filter((key) => readable.includes(key)));
      for (const key of [...this.#usableSince.keys()].filter((one) => isOf(one, kind))) {
        if (!usable.has(key)) this.#usableSince.delete(key);
      }
      for (const key of usable) if (!this.#usableSince.has(key)) this.#usableSince.set(key, now);
    }
    const { skewed, shutOut, disabled } = this.#gateway;
    for (const operation of operationNames) {
      const operable = !skewed && !shutOut && !disabled.has(operation);
      if (!operable) this.#operableSince.delete(operation);
      else if (!this.#operableSince.has(operation)) this.#operableSince.set(operation, now);
    }
  }

  /** Since when the operation would succeed with the right key; `undefined`: it would not. */
  operableSince(operation: OperationName): number | undefined {
    return this.#operableSince.get(operation);
  }

  /** Since when the operation would succeed with the same key; `undefined`: it would not. */
  since(operation: OperationName): number | undefined {
    const operable = this.#operableSince.get(operation);
    const usable = [...this.#usableSince]
      .filter(([key]) => isOf(key, kindOf[operation]))
      .map(([, since]) => since);
    return operable === undefined || usable.length === 0
      ? undefined
      : Math.max(operable, Math.min(...usable));
  }
}

function isOf(key: string, kind: KeyKind): boolean {
  return key.startsWith(kind === 'control_key' ? 'c' : 'r');
}
