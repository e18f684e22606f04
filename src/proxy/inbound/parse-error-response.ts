import { STATUS_CODES } from 'node:http';
import { ProxyError } from '../../errors.ts';
import type { RequestContext } from '../../request-context.ts';
import { problemDetails } from './send-problem.ts';

export interface ParseErrorOptions {
  /** For what never became a request: what was answered, to be logged and counted. */
  readonly requestRejected: (context: RequestContext) => void;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  readonly newRequestId: () => string;
}

/** The response to bytes for which there is no response object: the last one of its connection. */
export function parseErrorResponse(refusal: ProxyError, ports: ParseErrorOptions): string {
  const { status, reason, outcome } = refusal;
  const id = ports.newRequestId();
  const { headers, body } = problemDetails(refusal, id);
  const lines = Object.entries({ ...headers, Connection: 'close' }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  const startedAt = ports.monotonic();
  ports.requestRejected({ id, startedAt, status, reason, outcome, attempts: 0, durations: { total: 0 } });
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`;
}

/** What Node's server says of a head that is not HTTP, or did not arrive in time. */
export function errorForParseFailure(error: Error): ProxyError {
  if ('code' in error && error.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new ProxyError('request-timeout', 'The head of the request did not arrive in time.');
  }
  return new ProxyError('bad-request', 'What was sent is not a valid HTTP/1.1 request.');
}
