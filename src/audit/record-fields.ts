import { orderIdsIn } from '../identifiers.ts';
import { holdsCardNumber } from '../redact-card-data.ts';
import type { RequestContext, RequestRecord } from '../request-context.ts';

/** The request for which something is signed. */
type Origin = Readonly<Pick<RequestRecord, 'id' | 'caller' | 'credential' | 'decision' | 'login'>>;

/** One signed attempt at the gateway. */
export interface AuditedAttempt {
  readonly request: {
    readonly record: Origin;
    readonly destination: { readonly environment: string; readonly operation: { readonly name: string } };
    readonly form: readonly (readonly [name: string, value: string])[];
  };
  /** Of a control key, 4 hex digits. */
  readonly key: { readonly kind: string; readonly version: number; readonly fingerprint?: string };
  /** The timestamp in seconds since 1970. A control has neither. */
  readonly signature: { readonly nonce?: string; readonly timestamp?: number };
}

const clientOrderIdPattern = /^[A-Za-z0-9._-]{1,128}$/;

export function intentFields({ request, key, signature: { nonce, timestamp } }: AuditedAttempt) {
  const { record, destination, form } = request;
  return {
    ...originFields(record),
    environment: destination.environment,
    operation: destination.operation.name,
    keyKind: key.kind,
    keyVersion: key.version,
    keyFingerprint: key.fingerprint,
    nonce,
    timestamp,
    login: record.login,
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

/** Of a callback that was verified, or not. */
export function callbackFields(context: RequestContext) {
  const { environment, operation, login, callback, keyKind, keyVersion, keyFingerprint } = context;
  return {
    ...originFields(context),
    environment,
    operation,
    login,
    callback,
    keyKind,
    keyVersion,
    keyFingerprint,
  };
}

function originFields({ id, caller, credential, decision }: Origin) {
  return { request: id, caller, credential, decision };
}

/** The only value of a form that is recorded: it links the record to an order. `omitted` if it may hold a card number. */
export function clientOrderIdOf(form: AuditedAttempt['request']['form']): string | undefined {
  const [id, second] = new Set(orderIdsIn(form));
  if (id === undefined || second !== undefined || !clientOrderIdPattern.test(id)) return undefined;
  return holdsCardNumber(id) ? 'omitted' : id;
}
