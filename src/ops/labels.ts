import { STATUS_CODES } from 'node:http';
import { refusals } from '../errors.ts';
import type { Exchange } from '../exchange.ts';

/** The names of a configuration that may stand in labels. */
export interface KnownNames {
  readonly environments: Readonly<
    Record<
      string,
      {
        readonly operations: readonly string[];
        /** Those of the operations that are not read-only. */
        readonly payments?: readonly string[];
        readonly maxInFlight: number;
      }
    >
  >;
  readonly callers: readonly string[];
}

export interface Labels {
  environment(name: string | undefined): { environment: string };
  caller(name: string | undefined): { caller: string };
  route(
    environment: string | undefined,
    operation: string | undefined,
  ): { environment: string; operation: string };
}

/** Label values that stay within the names of a configuration, whatever a request holds. */
export function createLabels({ environments, callers }: KnownNames): Labels {
  const environmentNames = new Set(Object.keys(environments));
  const operationNames = new Set(Object.values(environments).flatMap(({ operations }) => operations));
  const callerNames = new Set(callers);
  return {
    environment: (name) => ({ environment: closed(environmentNames, name) }),
    caller: (name) => ({ caller: closed(callerNames, name) }),
    route: (environment, operation) => ({
      environment: closed(environmentNames, environment),
      operation: closed(operationNames, operation),
    }),
  };
}

/** Absent is `none`, what is not in the set is `other`. */
export function closed(known: ReadonlySet<string>, value: string | undefined): string {
  if (value === undefined) return 'none';
  return known.has(value) ? value : 'other';
}

const statuses: ReadonlySet<string> = new Set([
  ...Object.keys(STATUS_CODES),
  ...Object.values(refusals).map(({ status }) => String(status)),
]);

/** A registered HTTP status, or one of Countersign's own. */
export function statusLabel(status: number | undefined): string {
  return closed(statuses, status === undefined ? undefined : String(status));
}

/** Who has to act on an exchange that failed: nobody, the caller, those who run Countersign, the gateway. */
export type Fault = 'none' | 'caller' | 'countersign' | 'gateway';

export function faultOf({ reason, gatewayStatus }: Pick<Exchange, 'reason' | 'gatewayStatus'>): Fault {
  if (reason === undefined) return (gatewayStatus ?? 0) >= 500 ? 'gateway' : 'none';
  if (reason.startsWith('gateway-')) return 'gateway';
  return refusals[reason].status < 500 ? 'caller' : 'countersign';
}
