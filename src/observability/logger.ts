import { type LogLevel, logLevels } from '../config/schema/values.ts';
import { isRejection, isUncertainPayment } from '../gateway/response.ts';
import type { TlsUser } from '../net/tls-files.ts';
import type { TlsFailure } from '../net/tls-observer.ts';
import type { RequestContext } from '../request-context.ts';

/** A frame as V8 prints it: function, then file, line and column. */
const frame =
  /^ {4}at (?:[\w$.<>[\]# ]{1,120} \()?(?:file:\/\/\/|node:|\/)[^\s():]{1,250}:\d{1,7}:\d{1,7}\)?$/;

const maxFrames = 20;

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

/** Every field is chosen here: `JSON.stringify` does what remains for a log library, in less than half the time. */
export function createLogger(level: LogLevel, destination: LogStream): Logger {
  const isWritten = (lineLevel: LogLevel): boolean =>
    logLevels.indexOf(lineLevel) >= logLevels.indexOf(level);
  const append = (line: Line): void => destination.write(`${JSON.stringify(line)}\n`);
  const write = (lineLevel: LineLevel, fields: object, msg: string): void => {
    if (!isWritten(lineLevel)) return;
    append({ level: lineLevel, time: now(), ...fields, msg });
    destination.hurry?.();
  };
  return {
    requestFinished(context) {
      const lineLevel = levelOf(context);
      if (!isWritten(lineLevel)) return;
      append(requestLine(lineLevel, context));
      if (lineLevel !== 'info' || context.readOnly === false) destination.hurry?.();
    },
    handshakeFailed: ({ role, problem, cause, peer }) =>
      write('warn', { role, problem, cause, peer }, 'TLS handshake failed'),
    internalError: ({ id, traceId }, error) =>
      write('error', { requestId: id, traceId, ...describe(error) }, 'internal error'),
    crash: (origin, error) => write('error', { origin, ...describe(error) }, 'uncaught exception, exiting'),
    message: (messageLevel, message, fields = {}) => write(messageLevel, fields, message),
    ...(level === 'debug'
      ? {
          debug: (msg: string, fields: DebugFields) =>
            append({ level: 'debug', time: now(), ...fields, msg }),
        }
      : {}),
  };
}

/** What every line has, beside its own fields. */
interface Line {
  readonly level: LogLevel;
  readonly time: string;
  readonly msg: string;
}

/** RFC 3339, in UTC, with milliseconds. */
function now(): string {
  return new Date().toISOString();
}

/** By what an operator should look at first: unknown outcomes and bugs, then denials and a failing gateway. */
function levelOf({ outcome, reason, status, gatewayStatus, callback }: RequestContext): LineLevel {
  if (outcome === 'unknown' || reason === 'internal') return 'error';
  const isDenied = reason === 'not-allowed' || reason === 'caller-unknown';
  const isForged = callback !== undefined && callback !== 'verified';
  if ((status ?? 0) >= 500 || isRejection(gatewayStatus ?? 0) || isDenied || isForged) return 'warn';
  return 'info';
}

/** The allow-list. What is `undefined` is not in the line. */
function requestLine(level: LineLevel, context: RequestContext): Line {
  const { durations } = context;
  const line = {
    level,
    time: now(),
    requestId: context.id,
    callerRequestId: context.callerRequestId,
    traceId: context.traceId,
    caller: context.caller,
    environment: context.environment,
    operation: context.operation,
    login: context.login,
    // For a query of its status, and for no other request.
    orderId: isUncertainPayment(context) ? context.orderId : undefined,
    keyVersion: context.keyVersion,
    keyFingerprint: context.keyFingerprint,
    status: context.status,
    gatewayStatus: context.gatewayStatus,
    gatewayResult: context.gatewayResult,
    gatewayErrorCode: context.gatewayErrorCode,
    unreachable: context.unreachable,
    tlsAlert: context.tlsAlert,
    rejection: context.rejection,
    callback: context.callback,
    reason: context.reason,
    outcome: context.outcome,
    attempts: context.attempts,
    totalMs: milliseconds(durations.total),
    keyMs: milliseconds(durations.key),
    signMs: milliseconds(durations.sign),
    gatewayMs: milliseconds(durations.gateway),
    serialNumber: context.serialNumber,
    msg: 'request completed',
  };
  // A copy of every line would cost as much as its JSON.
  const { rejected } = context;
  if (rejected === undefined) return line;
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
  return { ...line, ...client };
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

/**
 * The stack of an error without its message, which may hold data.
 *
 * V8 prints the message before the frames, and its lines may look like frames. So the message is removed first, and
 * then only lines in the format of a frame are kept.
 */
export function safeStackFrames(error: Error): readonly string[] {
  const stack = error.stack ?? '';
  const at = stack.indexOf(error.message);
  const afterMessage = at === -1 ? stack : stack.slice(at + error.message.length);
  return afterMessage
    .split('\n')
    .filter((line) => frame.test(line))
    .slice(0, maxFrames)
    .map((line) => line.trim());
}
