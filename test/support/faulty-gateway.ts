import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';

/** A request as it came over a socket: nothing parsed that need not be, every header in its order and case. */
export interface RawRequest {
  readonly line: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
}

/** One connection to the gateway, seen from the gateway. */
export interface Conversation {
  readonly socket: Socket;
  /** The next request, once all of it is there; `undefined` where the connection ends before. */
  readonly request: () => Promise<RawRequest | undefined>;
  readonly write: (text: string | Buffer) => void;
  /** Ends the connection with a TCP reset. */
  readonly reset: () => void;
  /** Ends the connection after what was written. */
  readonly end: (text?: string) => void;
}

/** What the gateway does with one connection, from its beginning. */
export type Script = (conversation: Conversation) => void | Promise<void>;

export interface FaultyGateway {
  readonly url: string;
  readonly port: number;
  /** How many connections were made so far. */
  readonly connections: () => number;
  /** Every complete request so far, in order. */
  readonly requests: () => readonly RawRequest[];
  /** Every byte so far, of all connections. */
  readonly received: () => string;
  readonly close: () => Promise<void>;
}

/**
 * A gateway of raw TCP, or of TLS with the options of `tls`. The first connection gets the first script, and
 * so on; the last script is for all further ones.
 */
export async function startFaultyGateway(
  scripts: readonly Script[],
  tls?: TlsOptions,
  onPort = 0,
): Promise<FaultyGateway> {
  const sockets = new Set<Socket>();
  const requests: RawRequest[] = [];
  const chunks: Buffer[] = [];
  let connections = 0;
  const onConnection = (socket: Socket): void => {
    const script = scripts[Math.min(connections, scripts.length - 1)];
    connections += 1;
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    // A reset by the proxy is nothing that the gateway could do something about.
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    void script?.(converse(socket, (request) => requests.push(request)));
  };
  const server = tls === undefined ? createServer(onConnection) : createTlsServer(tls, onConnection);
  server.on('tlsClientError', () => {});
  const port = await listen(server, onPort);
  return {
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    port,
    connections: () => connections,
    requests: () => requests,
    received: () => Buffer.concat(chunks).toString('latin1'),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

/** Answers every request of the connection with the same bytes. */
export function always(reply: string): Script {
  return async (conversation) => {
    while ((await conversation.request()) !== undefined) conversation.write(reply);
  };
}

/** Answers the first request of the connection with these bytes and ends it. */
export function once(reply: string): Script {
  return async (conversation) => {
    await conversation.request();
    conversation.end(reply);
  };
}

/** Takes the request and says nothing. */
export const silent: Script = async ({ request }) => {
  await request();
};

/** A well-formed reply with a body of known length. */
export function reply(
  status: string,
  body = '',
  headers: readonly string[] = ['Content-Type: text/html'],
): string {
  return [`HTTP/1.1 ${status}`, ...headers, `Content-Length: ${Buffer.byteLength(body)}`, '', body].join(
    '\r\n',
  );
}

/** Of loopback; the system gives it to nobody who asks for a free port, and nobody listens there. */
export const closedPort = 1;

/** A port on which nobody listens now. The next who asks for a free port may get it: begin nothing in between. */
export async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listen(server, 0);
  await new Promise((resolve) => {
    server.close(resolve);
  });
  return port;
}

function converse(socket: Socket, received: (request: RawRequest) => void): Conversation {
  let data = '';
  let ended = false;
  let wake = (): void => {};
  socket.on('data', (chunk: Buffer) => {
    data += chunk.toString('latin1');
    wake();
  });
  socket.once('close', () => {
    ended = true;
    wake();
  });
  return {
    socket,
    async request() {
      for (;;) {
        const parsed = parse(data);
        if (parsed !== undefined) {
          data = data.slice(parsed.length);
          received(parsed.request);
          return parsed.request;
        }
        if (ended) return undefined;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
    write: (text) => void socket.write(text),
    reset: () => void socket.resetAndDestroy(),
    end: (text) => void (text === undefined ? socket.end() : socket.end(text)),
  };
}

function parse(data: string): { request: RawRequest; length: number } | undefined {
  const end = data.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const [line = '', ...fields] = data.slice(0, end).split('\r\n');
  const headers = fields.map((field): [string, string] => {
    const colon = field.indexOf(':');
    return [field.slice(0, colon), field.slice(colon + 1).trim()];
  });
  const size = Number(headers.find(([name]) => name.toLowerCase() === 'content-length')?.[1] ?? 0);
  const length = end + 4 + size;
  if (data.length < length) return undefined;
  return { request: { line, headers, body: data.slice(end + 4, length) }, length };
}

async function listen(server: Server, onPort: number): Promise<number> {
  await new Promise<void>((resolve) => {
    server.listen(onPort, '127.0.0.1', resolve);
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}
