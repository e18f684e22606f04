import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';

/**
 * Closes the connection of a truncated response so that it cannot pass for a complete one: in HTTP/1.0 the end of the
 * connection may be all that ends a response. TCP is reset; TLS ends without close_notify (RFC 8446 section 6.1).
 */
export function abortResponse(response: ServerResponse): void {
  const { socket } = response;
  if (socket !== null && !(socket instanceof TLSSocket)) socket.resetAndDestroy();
  response.destroy();
}

/**
 * Destroys the connection if the client has not read the response by the timeout.
 *
 * @param timeout milliseconds
 */
export function abortIfUnread(response: ServerResponse, timeout: number): void {
  if (!response.closed) onTimeoutUnlessClosed(response, timeout, () => abortResponse(response));
}

/** Calls back when the response is closed, or now if it is closed already. */
export function afterClose(response: ServerResponse, callback: () => void): void {
  if (response.closed) callback();
  else response.once('close', callback);
}

/** @param timeout milliseconds */
export function onTimeoutUnlessClosed(
  stream: ServerResponse | Duplex,
  timeout: number,
  callback: () => void,
): void {
  const timer = setTimeout(callback, timeout);
  stream.once('close', () => clearTimeout(timer));
}

/** Whether the client knows from the response that the connection ends with it. */
export function announcesClose(response: ServerResponse): boolean {
  if (!response.headersSent) return false;
  return !response.shouldKeepAlive || response.getHeader('connection') === 'close';
}
