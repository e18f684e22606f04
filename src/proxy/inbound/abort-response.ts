import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';

/**
 * Ends the connection of an answer that will not be whole, so that nobody can take it for whole: over HTTP/1.0
 * the end of the connection may be all that ends an answer. Over TLS its alert is missing (RFC 8446 section 6.1).
 */
export function abortResponse(response: ServerResponse): void {
  const { socket } = response;
  if (socket !== null && !(socket instanceof TLSSocket)) socket.resetAndDestroy();
  response.destroy();
}

/**
 * Bounds how long an answer that is written may wait for its caller to read it: what is not taken by then is
 * thrown away with its connection.
 *
 * @param deadline milliseconds
 */
export function abortIfUnread(response: ServerResponse, deadline: number): void {
  if (!response.closed) onTimeoutUnlessClosed(response, deadline, () => abortResponse(response));
}

/** Acts when the response is over, which it may be already. */
export function afterClose(response: ServerResponse, act: () => void): void {
  if (response.closed) act();
  else response.once('close', act);
}

/** @param deadline milliseconds */
export function onTimeoutUnlessClosed(
  stream: ServerResponse | Duplex,
  deadline: number,
  act: () => void,
): void {
  const timer = setTimeout(act, deadline);
  stream.once('close', () => clearTimeout(timer));
}
