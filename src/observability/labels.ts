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

export type Labels = ReturnType<typeof createLabels>;

/** Limits label values to configured names, whatever a request contains. */
export function createLabels({ environments, callers, issuers = [] }: LabelDomain) {
  const environmentNames = new Set(Object.keys(environments));
  const operationNames = new Set(Object.values(environments).flatMap(({ operations }) => operations));
  const callerNames = new Set(callers);
  const issuerNames = new Set(issuers);
  return {
    environment: (name: string | undefined) => ({ environment: toKnownLabel(environmentNames, name) }),
    caller: (name: string | undefined) => ({ caller: toKnownLabel(callerNames, name) }),
    issuer: (name: string | undefined) => ({ issuer: toKnownLabel(issuerNames, name) }),
    route: (environment: string | undefined, operation: string | undefined) => ({
      environment: toKnownLabel(environmentNames, environment),
      operation: toKnownLabel(operationNames, operation),
    }),
  };
}

/** `none` if absent, `other` if not in the set. */
export function toKnownLabel(known: ReadonlySet<string>, value: string | undefined): string {
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
