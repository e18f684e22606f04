import { STATUS_CODES } from 'node:http';
import { ProxyError } from '../../errors.ts';
import type { RequestContext } from '../../request-context.ts';
import { errorCode } from '../../util/error-code.ts';
import { problemDetails } from './send-problem.ts';

export interface ParseErrorOptions {
  /** Called with the response to something that is not a request, to log and count it. */
  readonly requestRejected: (context: RequestContext) => void;
  /** Milliseconds of a monotonic clock. */
  readonly monotonic: () => number;
  readonly newRequestId: () => string;
}

/** The response to bytes for which Node has no response object. The connection ends with it. */
export function parseErrorResponse(error: ProxyError, options: ParseErrorOptions): string {
  const { status, reason, outcome } = error;
  const id = options.newRequestId();
  const { headers, body } = problemDetails(error, { id });
  const lines = Object.entries({ ...headers, Connection: 'close' }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  const startedAt = options.monotonic();
  options.requestRejected({ id, startedAt, status, reason, outcome, attempts: 0, durations: { total: 0 } });
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`;
}

/** For a head that is not valid HTTP or did not arrive in time. */
export function errorForParseFailure(error: Error): ProxyError {
  if (isRequestTimeout(error)) {
    return new ProxyError('request-timeout', 'Timed out reading the request headers.');
  }
  return new ProxyError('bad-request', 'Malformed HTTP/1.1 request.');
}

/** Node's time for a request, or for its head, is over. */
export function isRequestTimeout(error: Error): boolean {
  return errorCode(error) === 'ERR_HTTP_REQUEST_TIMEOUT';
}
