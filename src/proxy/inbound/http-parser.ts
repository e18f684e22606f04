import type { Socket } from 'node:net';

/** Node's HTTP parser of one connection. */
export interface HttpParser {
  parse(bytes: Buffer): void;
  /** The client has closed its side. */
  finish(): void;
}

export interface SocketInput {
  readonly data: (chunk: Buffer) => void;
  readonly end: () => void;
}

/**
 * Takes over a socket's input from Node's HTTP parser, so that the caller decides how many bytes are parsed when. By
 * itself the parser handles everything that one read returned, which can be thousands of pipelined requests.
 *
 * @param socket that an HTTP server has just started to read from
 * @throws TypeError if no HTTP server reads from the socket
 */
export function takeOverParser(socket: Socket, input: SocketInput): HttpParser {
  const parse = lastListener(socket, 'data');
  const finish = lastListener(socket, 'end');
  // In this order, because a socket without a data listener stops flowing.
  socket.on('data', input.data).on('end', input.end);
  socket.off('data', parse).off('end', finish);
  return { parse, finish };
}

type Listener = (...values: unknown[]) => void;

/** The last listener is that of Node's HTTP server. It needs no `this`. */
function lastListener(socket: Socket, event: 'data' | 'end'): Listener {
  const listener: unknown = socket.listeners(event).at(-1);
  if (!isListener(listener)) throw new TypeError('no HTTP server reads this socket');
  return listener;
}

function isListener(value: unknown): value is Listener {
  return typeof value === 'function';
}
