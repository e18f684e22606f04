import type { KeyKind } from '../../src/oauth1/methods.ts';
import { kindOf, type OperationName, operationNames } from './schedule.ts';
import type { Gateway, Vault } from './world.ts';

const kinds: readonly KeyKind[] = ['control_key', 'private_key'];
/** Milliseconds of a response of a source or gateway that is not slow. */
const fastest = 5;

/** A key that requests of a login would succeed with. */
export interface Usable {
  readonly key: string;
  /** Since when it is readable in Vault and accepted by all nodes of the gateway. */
  readonly since: number;
  /** Since when Vault has it. */
  readonly stored: number;
  /** Since when reads of Vault find it: it has it, and is available. */
  readonly readable: number;
  /** Whether the current version is another one since: looks read no other. */
  readonly byCurrent: boolean;
  /** Whether Vault was the last to have it, or to be available. */
  readonly bySource: boolean;
}

/** What a request of one login could succeed with, and since when. */
export class Conditions {
  readonly #vault: Vault;
  readonly #gateway: Gateway;
  readonly #storedSince = new Map<string, number>();
  readonly #acceptedSince = new Map<string, number>();
  /** Of the keys whose versions were all deleted, since when. */
  readonly deletedSince = new Map<string, number>();
  /** When every version was last found deleted. */
  #allDeletedAt = Number.NEGATIVE_INFINITY;
  #wasAllDeleted = false;
  /** The current versions that Vault had. One that is back may not have been missed. */
  readonly #currents = new Set<string>();
  /** When there was a new one. */
  readonly #changes: number[] = [];
  readonly #operableSince = new Map<OperationName, number>();
  /** When the source last began to fail, and to work. */
  readonly #source = { failingSince: Number.NEGATIVE_INFINITY, since: Number.NEGATIVE_INFINITY };
  /** Changes of the source's latency. */
  readonly #latencies: { readonly at: number; readonly latency: number }[] = [];
  #fastSince = Number.NEGATIVE_INFINITY;

  constructor(vault: Vault, gateway: Gateway) {
    this.#vault = vault;
    this.#gateway = gateway;
    this.update(Number.NEGATIVE_INFINITY);
  }

  /** Must be called after every change of Vault or the gateway. */
  update(now: number): void {
    const { current } = this.#vault;
    if (current !== undefined) {
      if (!this.#currents.has(current)) this.#changes.push(now);
      this.#currents.add(current);
      keep(this.#storedSince, new Set(kinds.flatMap((kind) => this.#vault.stored(kind))), now);
    }
    if (this.#vault.allDeleted || this.#wasAllDeleted) this.#allDeletedAt = now;
    this.#wasAllDeleted = this.#vault.allDeleted;
    keep(this.deletedSince, new Set(kinds.flatMap((kind) => this.#vault.deleted(kind))), now);
    keep(this.#acceptedSince, new Set(kinds.flatMap((kind) => this.#gateway.accepted(kind))), now);
    const { skewed, shutOut, disabled, latency } = this.#gateway;
    const operable = operationNames.filter((operation) => !skewed && !shutOut && !disabled.has(operation));
    keep(this.#operableSince, new Set(operable), now);
    if (latency > fastest) this.#fastSince = Number.POSITIVE_INFINITY;
    else this.#fastSince = Math.min(this.#fastSince, now);
    if (this.#latencies.at(-1)?.latency !== this.#vault.latency)
      this.#latencies.push({ at: now, latency: this.#vault.latency });
    const source = this.#source;
    if (this.#vault.failing) {
      if (source.since !== Number.POSITIVE_INFINITY) source.failingSince = now;
      source.since = Number.POSITIVE_INFINITY;
    } else source.since = Math.min(source.since, now);
  }

  /** Since when the operation would succeed with the right key; `undefined`: it would not. */
  operableSince(operation: OperationName): number | undefined {
    return this.#operableSince.get(operation);
  }

  /** Since when no operation with this kind of key is rejected for another reason than its key. */
  allOperableSince(kind: KeyKind): number {
    const operations = operationNames.filter((operation) => kindOf[operation] === kind);
    return Math.max(...operations.map((one) => this.#operableSince.get(one) ?? Number.POSITIVE_INFINITY));
  }

  /** The key that the operation would have succeeded with for longest; `undefined`: there is none. */
  usable(operation: OperationName): Usable | undefined {
    const operable = this.#operableSince.get(operation);
    const { since: available, failingSince } = this.#source;
    if (operable === undefined || available === Number.POSITIVE_INFINITY) return undefined;
    const usable = [...this.#storedSince]
      .filter(([key]) => isOf(key, kindOf[operation]))
      .flatMap(([key, stored]): Usable[] => {
        const accepted = this.#acceptedSince.get(key);
        if (accepted === undefined) return [];
        // An older version that is undeleted is found with the next current one.
        const foundBy = this.#changes.find((at) => at >= stored);
        const since = Math.max(stored, accepted, available, operable, foundBy ?? stored);
        // An outage during which Vault got no key changes nothing for a request.
        const wasStored = Math.max(stored, stored > failingSince ? available : stored);
        return [
          {
            key,
            since,
            stored,
            readable: Math.max(stored, available),
            byCurrent: foundBy !== undefined,
            bySource: wasStored >= Math.max(accepted, operable),
          },
        ];
      });
    return usable.toSorted((a, b) => a.since - b.since)[0];
  }

  /** Since when reads of the source get its keys; `Infinity`: they do not. */
  get availableSince(): number {
    return this.#source.since;
  }

  /** When every version was last deleted: `now` if it is so. */
  lastAllDeletedAt(now: number): number {
    return this.#vault.allDeleted ? now : this.#allDeletedAt;
  }

  /** Whether the gateway has accepted the key for operations of this kind since then. */
  isAcceptedFor(key: string, operation: OperationName, since: number): boolean {
    return (
      isOf(key, kindOf[operation]) && (this.#acceptedSince.get(key) ?? Number.POSITIVE_INFINITY) <= since
    );
  }

  /** Whether each read that was in flight at that time or later is fast. */
  isFastSince(at: number): boolean {
    return this.slowestSince(at) <= fastest;
  }

  /** Since when the gateway is fast; `Infinity`: it is slow. */
  get fastSince(): number {
    return this.#fastSince;
  }

  /** The longest milliseconds of a read that was in flight at that time or later. */
  slowestSince(at: number): number {
    const later = this.#latencies.filter(({ latency }, index) => {
      const lastBegin = this.#latencies[index + 1]?.at ?? Infinity;
      return lastBegin + latency >= at;
    });
    return Math.max(...later.map(({ latency }) => latency));
  }
}

/** Since when each of these is there. */
function keep<Name>(since: Map<Name, number>, there: ReadonlySet<Name>, now: number): void {
  for (const name of since.keys()) if (!there.has(name)) since.delete(name);
  for (const name of there) if (!since.has(name)) since.set(name, now);
}

function isOf(key: string, kind: KeyKind): boolean {
  return key.startsWith(kind === 'control_key' ? 'c' : 'r');
}
