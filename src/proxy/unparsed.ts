import { STATUS_CODES } from 'node:http';
import { Refusal } from '../errors.ts';
import type { Exchange } from '../exchange.ts';
import { problem } from './refuse.ts';

export interface UnparsedPorts {
  /** For what never became a request: what was answered, to be logged and counted. */
  readonly refused: (exchange: Exchange) => void;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  readonly newRequestId: () => string;
}

/** The response to bytes for which there is no response object: the last one of its connection. */
export function unparsedResponse(refusal: Refusal, ports: UnparsedPorts): string {
  const exchange: Exchange = {
    id: ports.newRequestId(),
    startedAt: ports.monotonic(),
    outcome: refusal.outcome,
    attempts: 0,
    durations: { total: 0 },
    status: refusal.status,
    reason: refusal.reason,
  };
  const { headers, body } = problem(refusal, exchange.id);
  const lines = Object.entries({ ...headers, Connection: 'close' }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  ports.refused(exchange);
  return `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}\r\n${lines.join('')}\r\n${body}`;
}

/** What Node's server says of a head that is not HTTP, or did not arrive in time. */
export function refusalForHead(error: Error): Refusal {
  if ('code' in error && error.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Refusal('request-timeout', 'The head of the request did not arrive in time.');
  }
  return new Refusal('bad-request', 'What was sent is not a valid HTTP/1.1 request.');
}
