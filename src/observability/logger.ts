import { pino, stdTimeFunctions } from 'pino';
import type { LogLevel } from '../config/schema/values.ts';
import { isRejection, isUncertainPayment } from '../gateway/response.ts';
import type { TlsUser } from '../net/tls-files.ts';
import type { TlsFailure } from '../net/tls-observer.ts';
import type { RequestContext } from '../request-context.ts';
import { safeStackFrames } from '../util/stack-frames.ts';

type LineLevel = 'info' | 'warn' | 'error';

/** A handshake of a client with one of our ports. */
export interface HandshakeFailure extends TlsFailure {
  readonly role: TlsUser['role'];
}

/** The log: one JSON object per line. No field can hold a body, a header or a base string. */
export interface Logger {
  /** The access line of a request. */
  requestFinished(context: RequestContext): void;
  /** A TLS handshake that failed: there was no request. */
  handshakeFailed(failure: HandshakeFailure): void;
  /** A bug in Countersign: the error's name and stack frames, never its message, which may hold data. */
  internalError(request: Pick<RequestContext, 'id' | 'traceId'>, error: unknown): void;
  /** An uncaught exception outside of any request; the process exits. */
  crash(origin: string, error: unknown): void;
  /** Anything else; message and fields are the caller's responsibility. */
  message(level: LineLevel, message: string, fields?: LogFields): void;
  /** A decision and its reason. Absent unless the level is `debug`, so that `?.` skips its arguments too. */
  readonly debug?: (message: string, fields: DebugFields) => void;
}

/** What is `undefined` is not in the line. */
export type DebugFields = Readonly<Record<string, string | number | boolean | undefined>>;

export type LogFields = Readonly<Record<string, string | number | boolean>>;

/** Where lines go. */
interface LogStream {
  /** @param line ends with a line feed */
  readonly write: (line: string) => void;
  /** The lines so far must not wait for further ones. */
  readonly hurry?: () => void;
}

/** Every field is chosen here; pino adds level and time before them, and the message behind them. */
export function createLogger(level: LogLevel, destination: LogStream): Logger {
  const line = pino(
    {
      level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    destination,
  );
  const write = (lineLevel: LineLevel, fields: object, msg: string): void => {
    line[lineLevel](fields, msg);
    destination.hurry?.();
  };
  return {
    requestFinished(context) {
      const lineLevel = levelOf(context);
      if (!line.isLevelEnabled(lineLevel)) return;
      line[lineLevel](fieldsOf(context), 'request completed');
      // Not each of a flood.
      const isOfFlood = context.reason === 'caller-limit';
      if ((lineLevel !== 'info' || context.readOnly === false) && !isOfFlood) destination.hurry?.();
    },
    handshakeFailed: ({ role, problem, cause, peer }) =>
      write('warn', { role, problem, cause, peer }, 'TLS handshake failed'),
    internalError: ({ id, traceId }, error) =>
      write('error', { requestId: id, traceId, ...describe(error) }, 'internal error'),
    crash: (origin, error) => write('error', { origin, ...describe(error) }, 'uncaught exception, exiting'),
    message: (messageLevel, message, fields = {}) => write(messageLevel, fields, message),
    ...(level === 'debug' ? { debug: (msg: string, fields: DebugFields) => line.debug(fields, msg) } : {}),
  };
}

/** By what an operator should look at first: unknown outcomes, crossed orders and bugs, then denials, limits and a failing gateway. */
function levelOf(context: RequestContext): LineLevel {
  const { outcome, reason, status, gatewayStatus, callback, orderMismatch } = context;
  if (reason === 'duplicate-payment') return 'warn';
  if (outcome === 'unknown' || reason === 'internal' || orderMismatch === 'order-id') return 'error';
  const isDenied = reason === 'not-allowed' || reason === 'caller-unknown' || reason === 'caller-limit';
  const isForged = callback !== undefined && callback !== 'verified';
  const isOdd = orderMismatch !== undefined || isForged;
  if ((status ?? 0) >= 500 || isRejection(gatewayStatus ?? 0) || isDenied || isOdd) return 'warn';
  return 'info';
}

/** The allow-list. What is `undefined` is not in the line. */
function fieldsOf(context: RequestContext): object {
  const { durations } = context;
  // For a query of its status, and for no other request.
  const isToQuery = isUncertainPayment(context) || context.firstRequestId !== undefined;
  const toQuery = isToQuery ? context : undefined;
  const fields = {
    requestId: context.id,
    callerRequestId: context.callerRequestId,
    traceId: context.traceId,
    caller: context.caller,
    environment: context.environment,
    operation: context.operation,
    login: context.login,
    orderId: toQuery?.orderId,
    statusPath: toQuery?.statusPath,
    keyVersion: context.keyVersion,
    keyFingerprint: context.keyFingerprint,
    status: context.status,
    gatewayStatus: context.gatewayStatus,
    gatewayResult: context.gatewayResult,
    gatewayErrorCode: context.gatewayErrorCode,
    orderMismatch: context.orderMismatch,
    unreachable: context.unreachable,
    tlsAlert: context.tlsAlert,
    rejection: context.rejection,
    callback: context.callback,
    reason: context.reason,
    limit: context.limit,
    outcome: context.outcome,
    firstRequestId: context.firstRequestId,
    attempts: context.attempts,
    totalMs: milliseconds(durations.total),
    claimMs: milliseconds(durations.claim),
    keyMs: milliseconds(durations.key),
    signMs: milliseconds(durations.sign),
    gatewayMs: milliseconds(durations.gateway),
    serialNumber: context.serialNumber,
  };
  // A copy of every line would cost as much as its JSON.
  const { rejected } = context;
  if (rejected === undefined) return fields;
  // Where to look for a client whose request was rejected.
  const client = {
    environment: context.environment ?? rejected.environment,
    operation: context.operation ?? rejected.operation,
    login: rejected.login,
    peer: rejected.peer,
    method: rejected.method,
    credential: rejected.credential,
    tokenHash: rejected.tokenHash,
    jwtProblem: rejected.jwtProblem,
    jwtSubject: rejected.jwtSubject,
    certificateSubject: rejected.certificateSubject,
    certificateIssuer: rejected.certificateIssuer,
    certificateProblem: rejected.certificateProblem,
  };
  return { ...fields, ...client };
}

/** Seconds to milliseconds with microsecond resolution. */
export function milliseconds(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : Math.round(seconds * 1e6) / 1e3;
}

function describe(error: unknown): { error: string; stack?: readonly string[] } {
  if (!(error instanceof Error)) return { error: `thrown ${typeof error}` };
  const name = /^[A-Za-z]{1,64}$/.test(error.name) ? error.name : 'Error';
  return { error: name, stack: safeStackFrames(error) };
}
