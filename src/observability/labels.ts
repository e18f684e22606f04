import { STATUS_CODES } from 'node:http';
import { errorTable } from '../errors.ts';
import type { RequestContext } from '../request-context.ts';

/** The configured names that may be label values. */
export interface LabelDomain {
  readonly environments: Readonly<
    Record<
      string,
      {
        readonly operations: readonly string[];
        /** Those of the operations that are not read-only. */
        readonly payments?: readonly string[];
        readonly maxInFlight: number;
        /** Connections to the gateway go through an egress proxy. */
        readonly egressProxy?: boolean;
        /** It has a mount for keys that do not leave Vault. */
        readonly transit?: boolean;
      }
    >
  >;
  readonly callers: readonly string[];
  /** Issuers of JWTs. */
  readonly issuers?: readonly string[];
}

type RouteLabels = Readonly<Record<'environment' | 'operation', string>>;

/**
 * Limits label values to configured names, whatever a request contains. The labels of configured routes are made once
 * and not for each request.
 */
export class Labels {
  readonly #environments = new Map<string, { readonly environment: string }>();
  readonly #operations = new Set<string>();
  readonly #callers = new Map<string, { readonly caller: string }>();
  readonly #issuers = new Set<string>();
  readonly #routes = new Map<string | undefined, Map<string | undefined, RouteLabels>>();

  /** Adds the names of a configuration. Earlier ones stay valid, since requests in flight may still use them. */
  allow({ environments, callers, issuers = [] }: LabelDomain): void {
    for (const [environment, { operations }] of Object.entries(environments)) {
      this.#environments.set(environment, { environment });
      const routes = this.#routes.get(environment) ?? new Map();
      this.#routes.set(environment, routes);
      for (const operation of operations) {
        this.#operations.add(operation);
        routes.set(operation, { environment, operation });
      }
    }
    for (const caller of callers) this.#callers.set(caller, { caller });
    for (const issuer of issuers) this.#issuers.add(issuer);
  }

  /** All that were ever configured. */
  environments(): Iterable<string> {
    return this.#environments.keys();
  }

  environment(name: string | undefined) {
    return this.#environments.get(name ?? '') ?? { environment: toKnownLabel(this.#environments, name) };
  }

  caller(name: string | undefined) {
    return this.#callers.get(name ?? '') ?? { caller: toKnownLabel(this.#callers, name) };
  }

  issuer(name: string | undefined) {
    return { issuer: toKnownLabel(this.#issuers, name) };
  }

  route(environment: string | undefined, operation: string | undefined): RouteLabels {
    return (
      this.#routes.get(environment)?.get(operation) ?? {
        environment: toKnownLabel(this.#environments, environment),
        operation: toKnownLabel(this.#operations, operation),
      }
    );
  }
}

/** `none` if absent, `other` if not in the set. */
export function toKnownLabel(known: { has(name: string): boolean }, value: string | undefined): string {
  if (value === undefined) return 'none';
  return known.has(value) ? value : 'other';
}

const statuses: ReadonlySet<string> = new Set([
  ...Object.keys(STATUS_CODES),
  ...Object.values(errorTable).map(({ status }) => String(status)),
]);

/** A registered HTTP status, or one that Countersign uses. */
export function statusLabel(status: number | undefined): string {
  return toKnownLabel(statuses, status === undefined ? undefined : String(status));
}

/** Who has to act on a failed request. `countersign`: its operators. `none`: it did not fail. */
export type ResponsibleParty = 'none' | 'caller' | 'countersign' | 'gateway';

export function responsibleParty({
  reason,
  gatewayStatus,
}: Pick<RequestContext, 'reason' | 'gatewayStatus'>): ResponsibleParty {
  if (reason === undefined) return (gatewayStatus ?? 0) >= 500 ? 'gateway' : 'none';
  if (reason.startsWith('gateway-')) return 'gateway';
  return errorTable[reason].status < 500 ? 'caller' : 'countersign';
}
