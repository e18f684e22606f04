import type { Agent } from 'node:http';
import type { VaultConfig } from '../../config/schema.ts';
import { errorCode } from '../../errors.ts';
import { createAgent, drainAgent, type Reuse } from '../../net/agent.ts';
import { NoResponse, sendSmallRequest } from '../../net/small-request.ts';
import type { TlsMaterial } from '../../net/tls-material.ts';
import type { TlsObserver } from '../../net/tls-observer.ts';
import { inSpan, type Span, serverAttributes } from '../../trace.ts';
import { setTimer } from '../../util/clock.ts';
import { parseJson } from '../../util/text.ts';
import { isUnavailable, kindOfResponse, metadataOf, VaultError } from './errors.ts';

/** Milliseconds after which a read without a response is sent again, on another connection. */
const resendAfter = 1000;

/** One copy of a request. */
interface Copy {
  readonly signal?: AbortSignal | undefined;
  /** Uses a new connection: a kept-alive one may be dead. */
  readonly freshSocket?: boolean;
}

type Resend = (isProbe: boolean) => Promise<void>;

/** The part of a request's timeout within which a tunnel has to be established, so that the error can say so. */
const tunnelShare = 0.5;

/** A response with a key or a token has a few kilobytes. */
const maxResponseBytes = 1_048_576;

const unfitHeader = 'the token or the namespace has a character that no HTTP header can have';

/** How to reach Vault: `keys.vault` of the configuration without the login. `timeout` is for a whole request. */
export type VaultAddress = Pick<VaultConfig, 'address' | 'namespace' | 'timeout' | 'egressProxy'> &
  Partial<Pick<VaultConfig, 'minVersion'>>;

export interface TransportOptions {
  readonly tlsObserver?: TlsObserver | undefined;
}

/** The request as node-vault passes it. */
export interface TransportRequest {
  readonly method: string;
  readonly uri: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly json?: unknown;
  /** Changes nothing at Vault, although it is a POST: a signature. */
  readonly changesNothing?: boolean;
  /** Ends a request that changes nothing. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * HTTP to one Vault server, in place of node-vault's axios: with a timeout for the whole request (that of axios does
 * not end a slowly dripping body), a size limit, no redirects, no proxy from environment variables, and TLS
 * verification that no environment variable can switch off.
 *
 * Reads and signatures share keep-alive connections, which are closed if unsolicited bytes arrive: a response that is
 * mixed up would be another login's key, and nothing in it names the login. Everything else uses a dedicated connection,
 * so that a login with a use-limited credential is never sent twice.
 */
export function transport(
  { address, timeout, egressProxy, minVersion }: VaultAddress,
  { tlsObserver: observer }: TransportOptions,
  material: TlsMaterial,
) {
  const agentWith = (options: Reuse): Agent =>
    createAgent(address, { ...material, minVersion, observer }, options, egressProxy, timeout * tunnelShare);
  const pooled = agentWith({ keepAlive: true });
  const fresh = agentWith({ keepAlive: false });
  const server = serverAttributes(address);

  async function send(request: TransportRequest, copy: Copy, span: Span | undefined) {
    const { method, json } = request;
    span?.add({ ...server, 'http.request.method': method });
    const url = new URL(request.uri);
    const type = json === undefined ? {} : { 'Content-Type': 'application/json' };
    // A listener of Vault Agent may require it (require_request_header), against requests of web pages.
    const headers = { 'X-Vault-Request': 'true', ...request.headers, ...type };
    const body = json === undefined ? undefined : JSON.stringify(json);
    const mayRepeat = method === 'GET' || request.changesNothing === true;
    const agents = mayRepeat && !copy.freshSocket ? { agent: pooled, again: fresh } : { agent: fresh };
    const way = { ...agents, timeout, stopped: copy.signal, maxResponseBytes };
    try {
      const response = await sendSmallRequest({ method, url, headers, body }, way);
      span?.add({ 'http.response.status_code': response.status });
      const parsed = parseVaultResponse(response.status, response.text);
      return { statusCode: response.status, body: parsed, request: { path: url.pathname } };
    } catch (error) {
      throw error instanceof NoResponse ? vaultErrorOf(error) : error;
    }
  }

  return {
    /** @throws VaultError unless the response has status 200 or 204 and is JSON or empty */
    send: (request: TransportRequest, copy: Copy = {}) =>
      inSpan('Vault request', (span) => send(request, copy, span)),
    /** Closes idle connections, and each one in use after its response. */
    drain: () => drainAgent(pooled),
    close: () => [pooled, fresh].forEach((agent) => agent.destroy()),
  };
}

function vaultErrorOf({ reason, message, cause, head }: NoResponse): VaultError {
  if (head !== undefined) return tooLarge(head);
  if (reason !== 'failed') return new VaultError('timeout');
  // Nothing was sent, so the network is not the cause.
  if (errorCode(cause) === 'ERR_INVALID_CHAR') return new VaultError('no-credentials', { note: unfitHeader });
  return new VaultError('unreachable', { note: message });
}

/** A secret of Vault concerns its login only; anything else at Vault's address is not Vault. */
function tooLarge({ status, headers }: NonNullable<NoResponse['head']>): VaultError {
  const isSecret = status === 200 && /^application\/json\b/i.test(headers['content-type'] ?? '');
  return isSecret ? new VaultError('too-large') : new VaultError('invalid-response', { status });
}

/**
 * Parses the body of a successful response; `undefined` for status 204.
 *
 * @throws VaultError for every other status, and for a success that is not JSON
 */
export function parseVaultResponse(status: number, text: string): unknown {
  const body = parseJson(text);
  if (status === 204) return undefined;
  if (status === 200 && body !== undefined) return body;
  throw new VaultError(kindOfResponse(status, body), { status, metadata: metadataOf(body) });
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

  async send<T>(send: (copy: Copy) => Promise<T>): Promise<T> {
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
    const timer = setInterval(() => this.#probe(sendAgain), resendAfter).unref();
    send({ signal }).then(resolve, reject);
    try {
      return await promise;
    } finally {
      clearInterval(timer);
      this.#waiting.delete(sendAgain);
      over.abort();
    }
  }

  /** Sends again after each second in which no other read sent a probe. */
  #probe(sendAgain: Resend): void {
    if (this.#probedRecently) return;
    this.#probedRecently = true;
    setTimer(() => {
      this.#probedRecently = false;
    }, resendAfter - 1);
    void sendAgain(true);
  }
}
