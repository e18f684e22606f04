import { holdsCardNumber } from '../redact-card-data.ts';
import type { RequestContext, RequestOrigin } from '../request-context.ts';

/** One signed attempt at the gateway. */
export interface AuditedAttempt {
  readonly origin: RequestOrigin;
  readonly environment: string;
  readonly operation: string;
  readonly keyKind: string;
  readonly keyVersion: number;
  /** Of an RSA key. */
  readonly keyFingerprint?: string | undefined;
  readonly nonce: string;
  /** Seconds since 1970. */
  readonly timestamp: number;
  readonly form: readonly (readonly [name: string, value: string])[];
}

const clientOrderIdPattern = /^[A-Za-z0-9._-]{1,128}$/;

export function intentFields({ origin, form, ...signed }: AuditedAttempt) {
  return {
    ...originFields(origin),
    ...signed,
    login: origin.login,
    clientOrderId: clientOrderIdOf(form),
  };
}

/** Of the record of a request that ended, sent or not. */
export function endFields(context: RequestContext) {
  const { rejected, attempts } = context;
  return {
    ...originFields(context),
    environment: context.environment ?? rejected?.environment,
    operation: context.operation ?? rejected?.operation,
    login: context.login ?? rejected?.login,
    outcome: context.outcome,
    reason: context.reason,
    status: context.status,
    gatewayStatus: context.gatewayStatus,
    attempts: attempts > 0 ? attempts : undefined,
    serialNumber: context.serialNumber,
    peer: rejected?.peer,
    presented: rejected?.credential,
    tokenHash: rejected?.tokenHash,
    jwtProblem: rejected?.jwtProblem,
    jwtSubject: rejected?.jwtSubject,
    certificateSubject: rejected?.certificateSubject,
    certificateProblem: rejected?.certificateProblem,
  };
}

function originFields({ id, caller, credential, decision, isCanary }: RequestOrigin) {
  return { request: id, caller, credential, decision, canary: isCanary };
}

/** The only value of a form that is recorded: it links the record to an order. `omitted` if it may hold a card number. */
function clientOrderIdOf(form: AuditedAttempt['form']): string | undefined {
  const [id, second] = form.filter(([name]) => name === 'client_orderid').map(([, value]) => value);
  if (id === undefined || second !== undefined || !clientOrderIdPattern.test(id)) return undefined;
  return holdsCardNumber(id) ? 'omitted' : id;
}
