import type { KeyKind } from '../../src/oauth1/methods.ts';

/** Names of keys, such as `c1` and `r2`. */
type KeyNames = readonly string[];

/** Which login an event is about; the first one unless given. */
interface AboutLogin {
  readonly login?: number;
}

/** One event. Those without a login are about all of them. */
export type Action =
  | (AboutLogin & { readonly do: 'vault-write'; readonly control?: string; readonly rsa?: string })
  /** Deletes a version; the newest one unless given. */
  | (AboutLogin & { readonly do: 'vault-delete'; readonly version?: number })
  | (AboutLogin & { readonly do: 'vault-delete-all' | 'vault-undelete' })
  | (AboutLogin & { readonly do: 'vault-rollback'; readonly version: number })
  /** Vault has no login at all, as after its mount was created again: also without metadata. */
  | { readonly do: 'vault-forget' | 'vault-remember'; readonly login?: number }
  /** The policy does not permit reading. */
  | { readonly do: 'vault-deny' | 'vault-permit'; readonly login?: number }
  | { readonly do: 'vault-outage'; readonly down: boolean }
  /** Reads get no response: until it ends, or until their timeout. */
  | { readonly do: 'vault-hang'; readonly on: boolean }
  /** Milliseconds of a read. */
  | { readonly do: 'vault-latency'; readonly latency: number }
  /** From now on one node of the gateway, or all, accept only these. */
  | (AboutLogin & {
      readonly do: 'gateway-accept';
      readonly kind: KeyKind;
      readonly keys: KeyNames;
      readonly node?: number;
    })
  | { readonly do: 'gateway-latency'; readonly latency: number }
  /** 403s that are not about the key. */
  | { readonly do: 'gateway-skew'; readonly on: boolean }
  | { readonly do: 'gateway-shut-out'; readonly on: boolean }
  | { readonly do: 'gateway-disable'; readonly operation: string; readonly on: boolean }
  /** Reload: a new configuration with the same keys. Restart: all state is lost. */
  | { readonly do: 'reload' | 'restart'; readonly instance: number }
  | (AboutLogin & { readonly do: 'request'; readonly instance: number; readonly operation: OperationName });

export type OperationName =
  | 'manager-balance'
  | 'order-status'
  | 'order-status-group'
  | 'pan-eligibility-send'
  | 'transfer';

/** A path of each operation. */
export const targets: Readonly<Record<OperationName, string>> = {
  'manager-balance': '/sandbox/gw/api/v2/get-balance/manager/acme',
  'order-status': '/sandbox/gw/api/v4/status/1234',
  'order-status-group': '/sandbox/gw/api/v4/status/group/7',
  'pan-eligibility-send': '/sandbox/gw/api/v2/pan-eligibility/send/1234',
  transfer: '/sandbox/gw/api/v4/transfer/1234',
};

export const operationNames: readonly OperationName[] = [
  'manager-balance',
  'order-status',
  'order-status-group',
  'pan-eligibility-send',
  'transfer',
];

export const kindOf: Readonly<Record<OperationName, KeyKind>> = {
  'manager-balance': 'control_key',
  'pan-eligibility-send': 'control_key',
  'order-status': 'private_key',
  'order-status-group': 'private_key',
  transfer: 'private_key',
};

const eventsOfOneLogin: ReadonlySet<string> = new Set([
  'vault-write',
  'vault-delete',
  'vault-delete-all',
  'vault-undelete',
  'vault-rollback',
  'gateway-accept',
  'request',
]);

/** Number of the login that an event is about; `undefined`: all of them. */
export function loginOf(action: Action): number | undefined {
  const login = 'login' in action ? action.login : undefined;
  return login ?? (eventsOfOneLogin.has(action.do) ? 0 : undefined);
}

export const loginNames = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => (index === 0 ? 'acme' : `login${index}`));

export const isPayment = (operation: string): boolean =>
  operation === 'transfer' || operation === 'pan-eligibility-send';

export interface Step {
  /** Milliseconds since the beginning. */
  readonly at: number;
  readonly action: Action;
}

export interface Schedule {
  readonly name: string;
  /** For what is not in the steps: latencies, and the node that a request gets to. */
  readonly seed: number;
  readonly instances: number;
  readonly logins: number;
  readonly nodes: number;
  /** `environments.*.maxInFlight` */
  readonly maxInFlight: number;
  /** `keys.rotation.canary` */
  readonly canary: boolean;
  /** `keys.cache.ttl`, milliseconds. */
  readonly fresh: number;
  readonly steps: readonly Step[];
}

/** One line of a timeline. */
export function describe(action: Action): string {
  const { do: what, ...details } = action;
  const texts = Object.entries(details).map(([name, value]) => `${name} ${value}`);
  return `${what.padEnd(16)} ${texts.join(', ')}`;
}
