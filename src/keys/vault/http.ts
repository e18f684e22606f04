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

/** A response with a key or a token has a few kilobytes. */
const maxResponseBytes = 1_048_576;
/** More than the cache's concurrent reads. */
const maxSockets = 16;

export interface TransportOptions {
  /** Milliseconds for a whole request: from waiting for a socket to the last byte of the response. */
  readonly timeout: number;
  /** PEM texts; the system's CAs where `ca` is absent. */
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** The request as node-vault passes it. */
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

export interface SendOptions {
  /** Aborts the request. */
  readonly signal?: AbortSignal;
  /** Uses a new connection: a kept-alive one may be dead. */
  readonly freshSocket?: boolean;
}

export interface Transport {
  /** @throws VaultError unless the response has status 200 or 204 and is JSON or empty */
  send(request: TransportRequest, options?: SendOptions): Promise<TransportResponse>;
  /** Closes idle connections, and each one in use after its response. */
  drain(): void;
  close(): void;
}

/**
 * HTTP to one Vault server, in place of node-vault's axios: with a timeout for the whole request (that of axios does
 * not end a slowly dripping body), a size limit, no redirects, no proxy from environment variables, and TLS
 * verification that no environment variable can switch off.
 *
 * Reads share keep-alive connections, which are closed if unsolicited bytes arrive: a response that is mixed up
 * would be another login's key, and nothing in it names the login. Everything else uses a dedicated connection, so
 * that a login with a use-limited credential is never sent twice.
 */
export function transport(options: TransportOptions): Transport {
  const { timeout, ...material } = options;
  const tls = { ...material, rejectUnauthorized: true, minVersion: 'TLSv1.2' } as const;
  const pooled = agents(new KeepAliveAgent({ maxSockets }), new KeepAliveTlsAgent({ ...tls, maxSockets }));
  const fresh = agents(new PlainAgent({ keepAlive: false }), new TlsAgent({ ...tls, keepAlive: false }));

  async function send(request: TransportRequest, options: SendOptions = {}): Promise<TransportResponse> {
    const deadline = AbortSignal.timeout(timeout);
    const signal = options.signal === undefined ? deadline : AbortSignal.any([deadline, options.signal]);
    const agent = request.method === 'POST' || options.freshSocket ? fresh : pooled;
    try {
      const response = await sendOnce(request, agent, signal).catch((error: unknown) => {
        if (error instanceof StaleSocket) return sendOnce(request, fresh, signal);
        throw error;
      });
      const body = parseVaultResponse(response.status, response.headers, response.text);
      return { statusCode: response.status, body, request: { path: new URL(request.uri).pathname } };
    } catch (error) {
      if (error instanceof VaultError) throw error;
      if (signal.aborted) throw new VaultError('timeout');
      throw new VaultError('unreachable', { note: describeNetworkFailure(error) });
    }
  }

  return {
    send,
    drain: () => pooled.drain(),
    close: () => [pooled, fresh].forEach((pair) => pair.close()),
  };
}

interface Agents {
  readonly plain: PlainAgent;
  readonly tls: TlsAgent;
  drain(): void;
  close(): void;
}

function agents(plain: PlainAgent, tls: TlsAgent): Agents {
  return {
    plain,
    tls,
    drain() {
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

async function sendOnce(
  { method, uri, headers, json }: TransportRequest,
  agents: Agents,
  signal: AbortSignal,
): Promise<RawResponse> {
  const url = new URL(uri);
  const body = json === undefined ? undefined : Buffer.from(JSON.stringify(json));
  const common = { method, signal, headers: { ...headers, ...contentHeaders(body) } };
  const request =
    url.protocol === 'https:'
      ? tlsRequest(url, { ...common, agent: agents.tls })
      : plainRequest(url, { ...common, agent: agents.plain });
  request.end(body);
  const response = await responseOf(request);
  return { status: response.statusCode ?? 0, headers: response.headers, text: await collect(response) };
}

function contentHeaders(body: Buffer | undefined): Record<string, string> {
  if (body === undefined) return {};
  return { 'Content-Type': 'application/json', 'Content-Length': String(body.length) };
}

/** The server had already closed the kept-alive socket. There was no response, and reads may be retried. */
class StaleSocket extends Error {}

function responseOf(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve);
    request.on('error', (error) => {
      reject(request.reusedSocket && codeOf(error) === 'ECONNRESET' ? new StaleSocket() : error);
    });
  });
}

async function collect(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    // Leaving the loop destroys the socket, so the rest is not read.
    if (bytes > maxResponseBytes) throw new VaultError('too-large', { status: response.statusCode ?? 0 });
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** A system error's code, such as `ECONNRESET`. */
function codeOf(error: unknown): string {
  const coded = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return typeof coded === 'string' ? coded : 'no code';
}
