import type { Socket } from 'node:net';

/** Node's HTTP parser of one connection. */
export interface HttpParser {
  parse(bytes: Buffer): void;
  /** The client has ended its side. */
  finish(): void;
}

export interface SocketInput {
  readonly data: (chunk: Buffer) => void;
  readonly end: () => void;
}

/**
 * Puts somebody else between a socket and Node's HTTP parser, which would parse whatever one read brought in one go:
 * thousands of requests, if a client pipelines them.
 *
 * @param socket of which an HTTP server has just begun to read
 */
export function takeOverParser(socket: Socket, input: SocketInput): HttpParser {
  const parse = lastListener(socket, 'data');
  const finish = lastListener(socket, 'end');
  // In this order, so that the socket goes on flowing.
  socket.on('data', input.data).on('end', input.end);
  socket.off('data', parse).off('end', finish);
  return { parse, finish };
}

type Listener = (...values: unknown[]) => void;

/** Node's HTTP server was the last to listen. Its listeners need no `this`. */
function lastListener(socket: Socket, event: 'data' | 'end'): Listener {
  const listener: unknown = socket.listeners(event).at(-1);
  if (!isListener(listener)) throw new TypeError('no HTTP server reads this socket');
  return listener;
}

function isListener(value: unknown): value is Listener {
  return typeof value === 'function';
}
