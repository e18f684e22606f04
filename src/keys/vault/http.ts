import type { Agent } from 'node:http';
import type { TlsMaterial } from '../../tls/material.ts';
import { createAgent, drainAgent } from '../../util/agent.ts';
import {
  type HttpResponse,
  ResponseTooLarge,
  StaleSocket,
  sendHttpRequest,
} from '../../util/http-request.ts';
import { describeNetworkFailure, networkFailureOf } from '../../util/network-failure.ts';
import { VaultError } from './errors.ts';
import { parseVaultResponse } from './parse-response.ts';

/** A response with a key or a token has a few kilobytes. */
const maxResponseBytes = 1_048_576;
/** More than the cache's concurrent reads. */
const maxSockets = 16;

export interface TransportOptions extends TlsMaterial {
  readonly address: string;
  /** Milliseconds for a whole request: from waiting for a socket to the last byte of the response. */
  readonly timeout: number;
  /** TLS with Vault failed: its certificate may have a new CA. */
  readonly tlsFailed?: (() => void) | undefined;
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
export function transport({ address, timeout, tlsFailed, ...tls }: TransportOptions): Transport {
  const pooled = createAgent(address, tls, { keepAlive: true, maxSockets });
  const fresh = createAgent(address, tls, { keepAlive: false });

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
      if (error instanceof ResponseTooLarge) throw tooLarge(error);
      if (signal.aborted) throw new VaultError('timeout');
      if (networkFailureOf(error) === 'tls') tlsFailed?.();
      throw new VaultError('unreachable', { note: describeNetworkFailure(error) });
    }
  }

  return {
    send,
    drain: () => drainAgent(pooled),
    close: () => [pooled, fresh].forEach((agent) => agent.destroy()),
  };
}

/** A secret of Vault concerns its login only; anything else at Vault's address is not Vault. */
function tooLarge({ status, headers }: ResponseTooLarge): VaultError {
  const isSecret = status === 200 && headers['content-type']?.startsWith('application/json') === true;
  return isSecret ? new VaultError('too-large') : new VaultError('invalid-response', { status });
}

function sendOnce(
  { method, uri, headers, json }: TransportRequest,
  agent: Agent,
  signal: AbortSignal,
): Promise<HttpResponse> {
  const body = json === undefined ? undefined : Buffer.from(JSON.stringify(json));
  return sendHttpRequest(
    {
      method,
      url: new URL(uri),
      headers: { ...headers, ...contentHeaders(body) },
      ...(body === undefined ? {} : { body }),
    },
    { agent, signal, maxResponseBytes },
  );
}

function contentHeaders(body: Buffer | undefined): Record<string, string> {
  if (body === undefined) return {};
  return { 'Content-Type': 'application/json', 'Content-Length': String(body.length) };
}
