import { createServer, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';
import { type Listening, listen } from './listening.ts';

/** A request as received: every header in its order and case. */
export interface RawRequest {
  readonly line: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
}

/** One connection to the gateway, seen from the gateway. */
export interface Conversation {
  readonly socket: Socket;
  /** The next request, once it is complete; `undefined` if the connection ends before. */
  readonly request: () => Promise<RawRequest | undefined>;
  readonly write: (text: string | Buffer) => void;
  /** Ends the connection with a TCP reset. */
  readonly reset: () => void;
  /** Ends the connection after what was written. */
  readonly end: (text?: string | Buffer) => void;
}

/** What the gateway does with one connection. */
export type Script = (conversation: Conversation) => void | Promise<void>;

export interface FaultyGateway {
  readonly url: string;
  readonly port: number;
  /** Number of connections so far. */
  readonly connections: () => number;
  /** Every complete request so far, in order. */
  readonly requests: () => readonly RawRequest[];
  /** Every byte so far, of all connections. */
  readonly received: () => string;
  readonly close: () => Promise<void>;
}

interface TcpServer extends Listening {
  readonly url: string;
}

/** A server of raw TCP, or of TLS with the options of `tls`, whose connections may break at any time. */
export async function startTcpServer(
  onConnection: (socket: Socket) => void,
  tls?: TlsOptions,
  onPort = 0,
): Promise<TcpServer> {
  const handle = (socket: Socket): void => {
    // The proxy may reset the connection.
    socket.on('error', () => {});
    onConnection(socket);
  };
  const server = tls === undefined ? createServer(handle) : createTlsServer(tls, handle);
  const listening = await listen(
    server.on('tlsClientError', () => {}),
    onPort,
  );
  return { ...listening, url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${listening.port}` };
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
  const requests: RawRequest[] = [];
  const chunks: Buffer[] = [];
  let connections = 0;
  const onConnection = (socket: Socket): void => {
    const script = scripts[Math.min(connections, scripts.length - 1)];
    connections += 1;
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    void script?.(converse(socket, (request) => requests.push(request)));
  };
  const { url, port, close } = await startTcpServer(onConnection, tls, onPort);
  return {
    url,
    port,
    connections: () => connections,
    requests: () => requests,
    received: () => Buffer.concat(chunks).toString('latin1'),
    close,
  };
}

/** Responds to every request of the connection with the same bytes. */
export function always(response: string): Script {
  return async (conversation) => {
    while ((await conversation.request()) !== undefined) conversation.write(response);
  };
}

/** Responds to the first request of the connection with these bytes, then ends it. */
export function once(response: string): Script {
  return async (conversation) => {
    await conversation.request();
    conversation.end(response);
  };
}

/** Reads the request and never responds. */
export const silent: Script = async ({ request }) => {
  await request();
};

/** A well-formed response with a body of known length. */
export function httpResponse(
  status: string,
  body = '',
  headers: readonly string[] = ['Content-Type: text/html'],
): string {
  return [`HTTP/1.1 ${status}`, ...headers, `Content-Length: ${Buffer.byteLength(body)}`, '', body].join(
    '\r\n',
  );
}

/** A loopback port that nothing listens on, and that the system never assigns. */
export const closedPort = 1;
export const closedUrl = `http://127.0.0.1:${closedPort}`;

/** A port that nothing listens on now. The system may assign it again: use it before any other port. */
export async function freePort(): Promise<number> {
  const { port, close } = await listen(createServer());
  await close();
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
