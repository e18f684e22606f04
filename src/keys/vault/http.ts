import {
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  Agent as PlainAgent,
  request as plainRequest,
} from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import { KeepAliveAgent, KeepAliveTlsAgent } from '../../util/keep-alive-agent.ts';
import { describeNetworkFailure } from '../../util/network-failure.ts';
import { VaultError } from './errors.ts';
import { parseVaultResponse } from './parse-response.ts';

/** A reply of Vault to a key or a login is a few kilobytes. */
const maxResponseBytes = 1_048_576;
/** More than the reads the cache has under way at once. */
const maxSockets = 16;

export interface TransportOptions {
  /** Milliseconds for one whole exchange: waiting for a socket, connecting, the last byte of the reply. */
  readonly timeout: number;
  /** PEM texts; the system's CAs where `ca` is absent. */
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** What node-vault asks of a transport. */
export interface TransportRequest {
  readonly method: string;
  readonly uri: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly json?: unknown;
}

export interface TransportResponse {
  readonly statusCode: number;
  readonly body: unknown;
  readonly request: { readonly path: string };
}

export interface ExchangeOptions {
  /** Ends an exchange whose reply is not wanted any more. */
  readonly signal?: AbortSignal;
  /** Not on a kept-alive socket, which may be one on which nothing comes any more. */
  readonly freshSocket?: boolean;
}

export interface Transport {
  /** @throws VaultError for everything but a reply with status 200 or 204 that is JSON or empty. */
  exchange(request: TransportRequest, options?: ExchangeOptions): Promise<TransportResponse>;
  /** Closes idle connections, and each one in use after its exchange. */
  retire(): void;
  close(): void;
}

/**
 * HTTP to one Vault server, in place of the axios instance node-vault would use: with a deadline over the
 * whole exchange (a timeout of axios does not end a dripping body), a size limit, no redirects, no proxy out
 * of the environment, and TLS verification that nothing in the environment switches off.
 *
 * Reads share kept-alive sockets, on which bytes that were not asked for end the connection: a response that
 * crossed would be another login's key, and nothing in it names the login. Everything else gets a socket of its own, so that a login whose
 * credential counts its uses is never sent twice.
 */
export function transport(options: TransportOptions): Transport {
  const { timeout, ...material } = options;
  const tls = { ...material, rejectUnauthorized: true, minVersion: 'TLSv1.2' } as const;
  const pooled = agents(new KeepAliveAgent({ maxSockets }), new KeepAliveTlsAgent({ ...tls, maxSockets }));
  const fresh = agents(new PlainAgent({ keepAlive: false }), new TlsAgent({ ...tls, keepAlive: false }));

  async function exchange(
    request: TransportRequest,
    options: ExchangeOptions = {},
  ): Promise<TransportResponse> {
    const deadline = AbortSignal.timeout(timeout);
    const signal = options.signal === undefined ? deadline : AbortSignal.any([deadline, options.signal]);
    const agent = request.method === 'POST' || options.freshSocket ? fresh : pooled;
    try {
      const reply = await send(request, agent, signal).catch((error: unknown) => {
        if (error instanceof StaleSocket) return send(request, fresh, signal);
        throw error;
      });
      const body = parseVaultResponse(reply.status, reply.headers, reply.text);
      return { statusCode: reply.status, body, request: { path: new URL(request.uri).pathname } };
    } catch (error) {
      if (error instanceof VaultError) throw error;
      if (signal.aborted) throw new VaultError('timeout');
      throw new VaultError('unreachable', { note: describeNetworkFailure(error) });
    }
  }

  return {
    exchange,
    retire: () => pooled.retire(),
    close: () => [pooled, fresh].forEach((pair) => pair.close()),
  };
}

interface Agents {
  readonly plain: PlainAgent;
  readonly tls: TlsAgent;
  retire(): void;
  close(): void;
}

function agents(plain: PlainAgent, tls: TlsAgent): Agents {
  return {
    plain,
    tls,
    retire() {
      for (const agent of [plain, tls]) {
        agent.maxFreeSockets = 0;
        for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
      }
    },
    close() {
      plain.destroy();
      tls.destroy();
    },
  };
}

interface RawResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

async function send({ method, uri, headers, json }: TransportRequest, agents: Agents, signal: AbortSignal) {
  const url = new URL(uri);
  const body = json === undefined ? undefined : Buffer.from(JSON.stringify(json));
  const common = { method, signal, headers: { ...headers, ...contentHeaders(body) } };
  const request =
    url.protocol === 'https:'
      ? tlsRequest(url, { ...common, agent: agents.tls })
      : plainRequest(url, { ...common, agent: agents.plain });
  request.end(body);
  const reply = await requestOnce(request);
  return {
    status: reply.statusCode ?? 0,
    headers: reply.headers,
    text: await collect(reply),
  } satisfies RawResponse;
}

function contentHeaders(body: Buffer | undefined): Record<string, string> {
  if (body === undefined) return {};
  return { 'Content-Type': 'application/json', 'Content-Length': String(body.length) };
}

/** A kept-alive socket that the server had already closed: nothing came back, and reads may be repeated. */
class StaleSocket extends Error {}

function requestOnce(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve);
    request.on('error', (error) => {
      reject(request.reusedSocket && codeOf(error) === 'ECONNRESET' ? new StaleSocket() : error);
    });
  });
}

async function collect(reply: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of reply as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    // Leaving the loop destroys the socket, so the rest is never read.
    if (bytes > maxResponseBytes) throw new VaultError('too-large', { status: reply.statusCode ?? 0 });
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** A system error's code (`ECONNREFUSED`); its message names addresses, which is more than is needed. */
function codeOf(error: unknown): string {
  const coded = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return typeof coded === 'string' ? coded : 'no code';
}
