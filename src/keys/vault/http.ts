import type { Agent, AgentOptions, IncomingHttpHeaders } from 'node:http';
import { z } from 'zod';
import type { TlsMaterial } from '../../tls/material.ts';
import { createAgent, drainAgent, type MinVersion } from '../../util/agent.ts';
import { setTimer } from '../../util/clock.ts';
import type { EgressProxySettings } from '../../util/egress-proxy.ts';
import {
  type HttpResponse,
  ResponseTooLarge,
  StaleSocket,
  sendHttpRequest,
} from '../../util/http-request.ts';
import { describeNetworkFailure, isTlsFailure } from '../../util/network-failure.ts';
import { parseJson } from '../../util/text.ts';
import type { TlsObserver } from '../../util/tls-observer.ts';
import { inSpan, type Span, serverAttributes } from '../../util/trace.ts';
import { isUnavailable, kindOfStatus, VaultError, type VaultErrorKind } from './errors.ts';

/** Milliseconds after which a read without a response is sent again, on another connection. */
const resendAfter = 1000;

/** Sends one copy of the request, which the signal aborts. Further copies use a dedicated connection. */
type Send<T> = (copy: { readonly signal: AbortSignal; readonly freshSocket: boolean }) => Promise<T>;

type Resend = (isProbe: boolean) => Promise<void>;

/** Seconds. A longer `Retry-After` is capped. */
const maxRetryAfter = 600;

const errorsShape = z.object({ errors: z.array(z.string()) });

const deletedShape = z.object({ data: z.object({ metadata: z.record(z.string(), z.unknown()) }) });

/** The part of a request's timeout within which a tunnel has to be established, so that the error can say so. */
const tunnelShare = 0.5;

/** A response with a key or a token has a few kilobytes. */
const maxResponseBytes = 1_048_576;
/** More than the cache's concurrent reads. */
const maxSockets = 16;
/** More than the signatures in flight that can be configured. */
const maxSigningSockets = 256;

interface TransportOptions extends TlsMaterial {
  readonly address: string;
  /** Milliseconds for a whole request: from waiting for a socket to the last byte of the response. */
  readonly timeout: number;
  readonly minVersion?: MinVersion | undefined;
  readonly observer?: TlsObserver | undefined;
  readonly egressProxy?: EgressProxySettings | undefined;
  /** TLS with Vault or the egress proxy failed: its certificate may have a new CA. */
  readonly tlsFailed?: (() => void) | undefined;
}

/** The request as node-vault passes it. */
export interface TransportRequest {
  readonly method: string;
  readonly uri: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly json?: unknown;
  /** Changes nothing at Vault, although it is a POST: a signature. */
  readonly changesNothing?: boolean;
}

interface SendOptions {
  readonly signal?: AbortSignal;
  /** Uses a new connection: a kept-alive one may be dead. */
  readonly freshSocket?: boolean;
}

export type Transport = ReturnType<typeof transport>;

/**
 * HTTP to one Vault server, in place of node-vault's axios: with a timeout for the whole request (that of axios does
 * not end a slowly dripping body), a size limit, no redirects, no proxy from environment variables, and TLS
 * verification that no environment variable can switch off.
 *
 * Reads share keep-alive connections, which are closed if unsolicited bytes arrive: a response that is mixed up
 * would be another login's key, and nothing in it names the login. Signatures share others. Everything else uses a
 * dedicated connection, so that a login with a use-limited credential is never sent twice.
 */
export function transport({ address, timeout, egressProxy, tlsFailed, ...tls }: TransportOptions) {
  const agentWith = (options: AgentOptions): Agent =>
    createAgent(address, tls, options, egressProxy, timeout * tunnelShare);
  const pooled = agentWith({ keepAlive: true, maxSockets });
  const signing = agentWith({ keepAlive: true, maxSockets: maxSigningSockets });
  const fresh = agentWith({ keepAlive: false });

  const server = serverAttributes(address);

  async function send(request: TransportRequest, options: SendOptions, span: Span | undefined) {
    span?.add({ ...server, 'http.request.method': request.method });
    const deadline = AbortSignal.timeout(timeout);
    const signal = options.signal === undefined ? deadline : AbortSignal.any([deadline, options.signal]);
    const shared = request.changesNothing === true ? signing : request.method === 'POST' ? fresh : pooled;
    const agent = options.freshSocket ? fresh : shared;
    try {
      const response = await sendOnce(request, agent, signal).catch((error: unknown) => {
        if (error instanceof StaleSocket) return sendOnce(request, fresh, signal);
        throw error;
      });
      span?.add({ 'http.response.status_code': response.status });
      const body = parseVaultResponse(response.status, response.headers, response.text);
      return { statusCode: response.status, body, request: { path: new URL(request.uri).pathname } };
    } catch (error) {
      if (error instanceof VaultError) throw error;
      if (error instanceof ResponseTooLarge) throw tooLarge(error);
      if (signal.aborted) throw new VaultError('timeout');
      if (isTlsFailure(error)) tlsFailed?.();
      throw new VaultError('unreachable', { note: describeNetworkFailure(error) });
    }
  }

  return {
    /** @throws VaultError unless the response has status 200 or 204 and is JSON or empty */
    send: (request: TransportRequest, options: SendOptions = {}) =>
      inSpan('Vault request', (span) => send(request, options, span)),
    /** Closes idle connections, and each one in use after its response. */
    drain: () => [pooled, signing].forEach(drainAgent),
    close: () => [pooled, signing, fresh].forEach((agent) => agent.destroy()),
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
  const request = { method, url: new URL(uri), headers };
  const options = { agent, signal, maxResponseBytes };
  if (json === undefined) return sendHttpRequest(request, options);
  const body = Buffer.from(JSON.stringify(json));
  const content = { 'Content-Type': 'application/json', 'Content-Length': String(body.length) };
  return sendHttpRequest({ ...request, headers: { ...headers, ...content }, body }, options);
}

/**
 * Parses the body of a successful response; `undefined` for status 204.
 *
 * @throws VaultError for every other status, and for a success that is not JSON
 */
export function parseVaultResponse(status: number, headers: IncomingHttpHeaders, text: string): unknown {
  const body = parseJson(text);
  if (status === 204) return undefined;
  if (status === 200 && body !== undefined) return body;
  const retryAfter = retryAfterOf(headers);
  throw new VaultError(kindOf(status, body), {
    status,
    ...(retryAfter === undefined ? {} : { retryAfter }),
    metadata: deletedShape.safeParse(body).data?.data.metadata,
  });
}

/**
 * Checks that a 404 or 400 has the body that Vault itself writes: a load balancer's 404 must not make a key count
 * as deleted.
 */
function kindOf(status: number, body: unknown): VaultErrorKind {
  const errors = errorsShape.safeParse(body).data?.errors;
  /** For failures for which Vault has no dedicated status. */
  const mentions = (words: string): boolean => errors?.some((text) => text.includes(words)) ?? false;
  if (status === 404) {
    if (deletedShape.safeParse(body).success) return 'deleted';
    if (errors === undefined) return 'invalid-response';
    return errors.length === 0 ? 'not-found' : 'no-route';
  }
  if (status === 400 && mentions('check-and-set')) return 'cas-mismatch';
  // Transit's responses to a version that it does not have or no longer signs with, and, of OpenBao, to a key that is
  // marked as deleted. They concern this key only.
  if (status === 500 && (mentions('requested version for signing') || mentions('soft-deleted key')))
    return 'rejected';
  return kindOfStatus.get(status) ?? 'invalid-response';
}

/** Seconds. Vault sends whole seconds, never a date. */
function retryAfterOf(headers: IncomingHttpHeaders): number | undefined {
  const value = headers['retry-after'];
  if (value === undefined || !/^\d{1,9}$/.test(value)) return undefined;
  return Math.min(Number(value), maxRetryAfter);
}

/**
 * Keeps reads from waiting on dead connections, as after a Vault node hung or lost its network. A read without a
 * response is sent again after a second, but all reads together send at most one such probe per second. When a
 * probe gets a response, the other waiting reads are sent again too. The first response counts; without one a
 * read fails when its first copy does.
 */
export class Resender {
  readonly #waiting = new Set<Resend>();
  #probedRecently = false;

  async send<T>(send: Send<T>): Promise<T> {
    const over = new AbortController();
    const { signal } = over;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const sendAgain = async (isProbe: boolean): Promise<void> => {
      try {
        resolve(await send({ signal, freshSocket: true }));
      } catch (error) {
        // The first copy decides at its timeout whether Vault is unavailable.
        if (isUnavailable(error)) return;
        reject(error);
      }
      this.#waiting.delete(sendAgain);
      if (isProbe) for (const other of this.#waiting) void other(false);
    };
    this.#waiting.add(sendAgain);
    const cancel = this.#probeEach(sendAgain);
    send({ signal, freshSocket: false }).then(resolve, reject);
    try {
      return await promise;
    } finally {
      cancel();
      this.#waiting.delete(sendAgain);
      over.abort();
    }
  }

  /** Sends again after each second in which no other read sent a probe. */
  #probeEach(sendAgain: Resend): () => void {
    const probe = (): void => {
      cancel = setTimer(probe, resendAfter);
      if (this.#probedRecently) return;
      this.#probedRecently = true;
      setTimer(() => {
        this.#probedRecently = false;
      }, resendAfter - 1);
      void sendAgain(true);
    };
    let cancel = setTimer(probe, resendAfter);
    return () => cancel();
  }
}
