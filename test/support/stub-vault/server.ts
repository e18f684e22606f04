import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import { z } from 'zod';
import { type Fault, playFault } from './faults.ts';
import { errors, type StubRequest, type StubResponse } from './protocol.ts';
import { rootToken, World } from './state.ts';

const listeningShape = z.object({ port: z.number() });
const objectShape = z.record(z.string(), z.unknown());

/** One request as received. */
export interface Seen {
  readonly method: string;
  /** Path and query after `/v1/`, as sent. */
  readonly target: string;
  readonly headers: IncomingMessage['headers'];
  /** Empty until it was received. */
  body: string;
}

export interface StubOptions {
  /** Milliseconds on the wall clock; the system's unless given. */
  readonly clock?: () => number;
  /** With it the stub speaks TLS. */
  readonly tls?: {
    readonly key: string | Buffer;
    readonly cert: string | Buffer;
    /** Requires client certificates of this CA. */
    readonly clientCa?: string | Buffer;
  };
}

/** Vault's HTTP protocol on a loopback port: as strict as Vault, with every known failure. */
export class StubVault {
  readonly #server: Server;
  readonly #clock: () => number;
  readonly #world: World;
  readonly #scheme: string;
  /** Includes those in the TLS handshake. */
  readonly #sockets = new Set<Socket>();
  readonly seen: Seen[] = [];
  /** Since the start. */
  connections = 0;
  sealed = false;
  #fault: { readonly fault: Fault; readonly target: RegExp } | undefined;

  constructor({ clock = Date.now, tls }: StubOptions = {}) {
    this.#clock = clock;
    this.#world = new World(clock());
    const handle = (request: IncomingMessage, response: ServerResponse) =>
      void this.#handle(request, response);
    this.#scheme = tls === undefined ? 'http' : 'https';
    const client = tls?.clientCa === undefined ? {} : { ca: tls.clientCa, requestCert: true };
    this.#server = tls === undefined ? createServer(handle) : createTlsServer({ ...tls, ...client }, handle);
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      this.connections += 1;
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  get openConnections(): number {
    return this.#sockets.size;
  }

  /** Picks a free port, or listens on the previous one. */
  async listen(port = 0): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(port, '127.0.0.1', resolve));
    return this.address;
  }

  get address(): string {
    return `${this.#scheme}://127.0.0.1:${this.port}`;
  }

  get port(): number {
    return listeningShape.parse(this.#server.address()).port;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  world(): World {
    return this.#world;
  }

  /** Writes a secret as an administrator, without a connection. */
  put(path: string, data: object): void {
    const call = { method: 'POST', path: `secret/data/${path}`, body: { data }, token: rootToken };
    const rest = { query: new URLSearchParams(), now: this.#clock() };
    this.#world.respond({ ...call, ...rest });
  }

  /** From now on requests whose target matches fail with this fault. */
  fail(fault: Fault, target = /./): void {
    this.#fault = { fault, target };
  }

  heal(): void {
    this.#fault = undefined;
    this.sealed = false;
  }

  /** Number of requests whose target matches. */
  count(target: RegExp): number {
    return this.seen.filter((request) => target.test(`${request.method} ${request.target}`)).length;
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const target = (request.url ?? '').replace(/^\/v1\//, '');
    const seen: Seen = { method: request.method ?? '', target, headers: request.headers, body: '' };
    this.seen.push(seen);
    const body = await textOf(request);
    seen.body = body;
    const fault = this.#faultOf(request, target);
    if (fault !== undefined && fault.kind !== 'late-write') return playFault(fault, response);
    const stubResponse = this.#responseTo(request, target, body);
    if (fault?.kind === 'late-write') return;
    response.writeHead(stubResponse.status, {
      'Content-Type': 'application/json',
      'Cache-Control': 'no-store',
    });
    response.end(stubResponse.body === undefined ? undefined : `${JSON.stringify(stubResponse.body)}\n`);
  }

  #faultOf({ method }: IncomingMessage, target: string): Fault | undefined {
    if (this.#fault?.target.test(target) !== true) return undefined;
    const { fault } = this.#fault;
    return fault.kind === 'late-write' && method === 'GET' ? undefined : fault;
  }

  #responseTo(request: IncomingMessage, target: string, body: string): StubResponse {
    if (target.startsWith('sys/health')) return this.#health();
    if (this.sealed) return errors(503, 'Vault is sealed');
    const call = callOf(request, target, body, this.#clock());
    return call === undefined ? errors(400, 'error parsing JSON') : this.#world.respond(call);
  }

  #health(): StubResponse {
    const body = { initialized: true, sealed: this.sealed, standby: false, version: '1.0.0-stub' };
    return { status: this.sealed ? 503 : 200, body };
  }
}

function callOf(
  request: IncomingMessage,
  target: string,
  text: string,
  now: number,
): StubRequest | undefined {
  const url = new URL(target, 'http://vault.invalid/');
  const token = request.headers['x-vault-token'];
  try {
    return {
      method: methodOf(request, url),
      path: decodeURIComponent(url.pathname.slice(1)),
      query: url.searchParams,
      body: text === '' ? {} : objectShape.parse(JSON.parse(text)),
      token: typeof token === 'string' ? token : undefined,
      now,
    };
  } catch {
    return undefined;
  }
}

/** Node's parser does not support `LIST`; Vault treats `GET` with `list` the same. */
function methodOf({ method = '' }: IncomingMessage, { searchParams }: URL): string {
  if (method === 'PUT') return 'POST';
  return ['1', 'true'].includes(searchParams.get('list') ?? '') ? 'LIST' : method;
}
