import { createPublicKey } from 'node:crypto';
import {
  type CryptoKey,
  createRemoteJWKSet,
  customFetch,
  errors,
  type FlattenedJWSInput,
  type JWK,
  type JWKSCacheInput,
  type JWSHeaderParameters,
  jwksCache,
} from 'jose';
import type { JwtIssuerConfig } from '../../config/schema.ts';
import { agentFor } from '../../net/agent.ts';
import { NoResponse, sendSmallRequest } from '../../net/small-request.ts';
import type { TlsObserver } from '../../net/tls-observer.ts';
import { readSecret, readText } from '../../read-files.ts';
import { Backoff, type BackoffOptions } from '../../util/backoff.ts';
import type { SetTimer } from '../../util/clock.ts';
import { entriesOf } from '../../util/text.ts';
import { JwtError } from './jwt-error.ts';
import { parseStrictJson } from './strict-json.ts';

/** Milliseconds after a fetch in which no token causes another. */
const coolDown = 10_000;
/** The same after a failed fetch; then the next begins without a token. */
const retryRange = { initial: 1000, max: 60_000 };
/** Tokens that wait for keys at the same time. Their clients are not known yet, and use memory. */
const maxWaiting = 100;
/** Milliseconds for one request. */
const timeout = 5000;
const maxResponseBytes = 262_144;
const maxDepth = 16;
const maxKeys = 100;
/** As jose demands it (RFC 7518 section 3.3). */
const minRsaBits = 2048;
const discoveryPath = '/.well-known/openid-configuration';

export interface KeySetOptions extends BackoffOptions {
  /** Fetches the public keys. Rejects with an error whose message an operator may read. */
  readonly load: (stopped: AbortSignal) => Promise<readonly JWK[]>;
  /** Milliseconds between refreshes in the background, fewer than `maxStale`. */
  readonly refreshInterval: number;
  /** Milliseconds after their last successful fetch for which the keys are used. */
  readonly maxStale: number;
  readonly setTimer: SetTimer;
  readonly observer: {
    keysFetched(): void;
    /** @param cause for the log */
    keyFetchFailed(cause: string): void;
  };
}

/**
 * The public keys of one issuer in jose's remote set: fetched at intervals, and for a token with an unknown key, but not
 * during a cool-down. Keys stay in use while they cannot be fetched.
 */
export class KeySet {
  readonly #options: KeySetOptions;
  readonly #backoff: Backoff;
  readonly #cache: JWKSCacheInput = {};
  readonly #keys: ReturnType<typeof createRemoteJWKSet>;
  #fetchedAt = Number.NEGATIVE_INFINITY;
  #problem: string | undefined;
  #coolUntil = Number.NEGATIVE_INFINITY;
  #waiting = 0;
  #cancelTimer: (() => void) | undefined;
  readonly #stopped = new AbortController();

  /** @param previous has keys of the same issuer, which are used until others are fetched */
  constructor(options: KeySetOptions, previous?: KeySet) {
    this.#options = options;
    this.#backoff = new Backoff(retryRange, options.random);
    if (previous !== undefined) {
      this.#cache = { ...previous.#cache };
      this.#fetchedAt = previous.#fetchedAt;
      this.#problem = previous.#problem;
    }
    // Where the keys are, discovery may have to find out; how long they are good for, the monotonic clock says.
    this.#keys = createRemoteJWKSet(new URL('https://issuer.invalid'), {
      [customFetch]: () => this.#fetch(),
      [jwksCache]: this.#cache,
      cacheMaxAge: Number.POSITIVE_INFINITY,
      // It fetches nothing by itself while it has keys.
      cooldownDuration: Number.POSITIVE_INFINITY,
    });
  }

  /** Whether there are keys that may be used now. */
  get available(): boolean {
    return this.#options.monotonic() - this.#fetchedAt <= this.#options.maxStale;
  }

  /** Why the last fetch failed; `undefined` if it did not. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Fetches the keys now, and then at intervals. Does not wait. */
  refresh(): void {
    this.#coolUntil = Number.NEGATIVE_INFINITY;
    this.#keys.reload().catch(() => {
      // The observer knows.
    });
  }

  /** Also ends a fetch in flight, which would keep the process from exiting. */
  stop(): void {
    this.#stopped.abort();
    this.#cancelTimer?.();
  }

  /**
   * The key for the signature of a token.
   *
   * @throws JwtError `jwt-key`; `jwt-keys-unavailable` if the keys cannot be fetched now, or if too many tokens wait for
   *   them
   */
  async find(header: JWSHeaderParameters, token: FlattenedJWSInput): Promise<CryptoKey> {
    if (this.available) {
      try {
        return await this.#keys(header, token);
      } catch (error) {
        if (!(error instanceof errors.JWKSNoMatchingKey)) throw new JwtError('jwt-key');
      }
    }
    // Only these tokens wait: a known key needs no room.
    if (this.#waiting >= maxWaiting) throw new JwtError('jwt-keys-unavailable');
    this.#waiting += 1;
    try {
      await this.#keys.reload();
      return await this.#keys(header, token);
    } catch {
      throw new JwtError(this.available && this.#problem === undefined ? 'jwt-key' : 'jwt-keys-unavailable');
    } finally {
      this.#waiting -= 1;
    }
  }

  async #fetch(): Promise<Response> {
    const { load, monotonic, observer, refreshInterval } = this.#options;
    const { signal } = this.#stopped;
    const startedAt = monotonic();
    if (startedAt < this.#coolUntil) throw new Error('keys were fetched a moment ago');
    try {
      const keys = await load(signal);
      signal.throwIfAborted();
      this.#fetchedAt = startedAt;
      this.#problem = undefined;
      this.#backoff.reset();
      this.#coolUntil = startedAt + coolDown;
      this.#refreshAfter(refreshInterval);
      observer.keysFetched();
      return Response.json({ keys });
    } catch (error) {
      if (!signal.aborted) this.#failed(error instanceof Error ? error.message : 'unknown error');
      throw error;
    }
  }

  #failed(problem: string): void {
    const now = this.#options.monotonic();
    this.#problem = problem;
    this.#backoff.recordFailure(now);
    this.#coolUntil = now + this.#backoff.remaining(now);
    this.#refreshAfter(this.#backoff.remaining(now));
    this.#options.observer.keyFetchFailed(problem);
  }

  #refreshAfter(delay: number): void {
    this.#cancelTimer?.();
    this.#cancelTimer = this.#options.setTimer(() => this.refresh(), delay);
  }
}

type FetchJson = (url: URL) => Promise<unknown>;

/**
 * Reads the public keys of an issuer from where the configuration says. Nothing that a caller sent has an influence.
 * Files are read each time, since certificates and tokens in them are replaced.
 *
 * @param stopped ends the requests
 * @throws Error with a message for operators, which names addresses and files of the configuration only
 */
export async function loadKeys(
  config: JwtIssuerConfig,
  stopped = new AbortController().signal,
  observer?: TlsObserver,
): Promise<readonly JWK[]> {
  const { issuer, jwks } = config;
  if (jwks !== undefined && 'file' in jwks) return keysIn(jsonOf(await readText(jwks.file), jwks.file));
  const fetchJson: FetchJson = (url) => fetchFrom(url, config, stopped, observer);
  return keysIn(
    await fetchJson(jwks === undefined ? await discoverKeys(issuer, fetchJson) : new URL(jwks.url)),
  );
}

/** OpenID Connect Discovery 1.0 sections 4.1 and 4.3. */
async function discoverKeys(issuer: string, fetchJson: FetchJson): Promise<URL> {
  const document = await fetchJson(new URL(issuer.replace(/\/$/, '') + discoveryPath));
  const { issuer: named, jwks_uri: address } = entriesOf(document);
  if (named !== issuer) throw new Error('the discovery document names another issuer: check the issuer');
  const url = typeof address === 'string' && URL.canParse(address) ? new URL(address) : undefined;
  // A log line about a failed fetch would have a password in the address.
  if (url?.origin !== new URL(issuer).origin || url.username + url.password !== '') {
    throw new Error(
      "the discovery document names a key set that is not on the issuer's host: set jwks.url if that is intended",
    );
  }
  return url;
}

async function fetchFrom(
  url: URL,
  { tokenFile, ...access }: JwtIssuerConfig,
  stopped: AbortSignal,
  observer: TlsObserver | undefined,
): Promise<unknown> {
  const headers: Record<string, string> = { Accept: 'application/json, application/jwk-set+json' };
  if (tokenFile !== undefined) headers['Authorization'] = `Bearer ${await readSecret(tokenFile, 'token')}`;
  const agent = agentFor(url, { ...access, observer });
  const { status, text } = await sendSmallRequest(
    { method: 'GET', url, headers },
    { agent, timeout, stopped, maxResponseBytes },
  ).catch((error: unknown) => {
    throw error instanceof NoResponse ? new Error(`${url.href}: ${error.message}`) : error;
  });
  if (status !== 200) throw new Error(`${url.href}: status ${status} instead of 200`);
  return jsonOf(text, url.href);
}

function jsonOf(text: string, source: string): unknown {
  const value = parseStrictJson(text, maxDepth);
  if (value === undefined) throw new Error(`${source}: not valid JSON`);
  return value;
}

/** The usable keys of a JWK set (RFC 7517 section 5). Others are ignored, as the RFC recommends. */
function keysIn(document: unknown): readonly JWK[] {
  const { keys } = entriesOf(document);
  if (!Array.isArray(keys)) throw new Error('the key set has no list of keys');
  if (keys.length > maxKeys) throw new Error(`the key set has more than ${maxKeys} keys`);
  const usable = keys.filter(isUsable);
  if (usable.length === 0) throw new Error('the key set has no usable public key');
  return usable;
}

/** A private or secret key in a published set is no key: everybody has it. */
function isUsable(key: unknown): key is JWK {
  const entries = entriesOf(key);
  if ('d' in entries || 'k' in entries || isTooLong(entries['n'])) return false;
  try {
    const { asymmetricKeyDetails = {} } = createPublicKey({ key: entries, format: 'jwk' });
    const { modulusLength = minRsaBits, publicExponent = 0n } = asymmetricKeyDetails;
    return modulusLength >= minRsaBits && modulusLength <= maxRsaBits && publicExponent <= maxRsaExponent;
  } catch {
    return false;
  }
}

/** A verification with the largest takes 0.5 ms; with an exponent as long as its modulus it would take a hundred times that. */
const maxRsaBits = 8192;
const maxRsaExponent = 0xffff_ffffn;

/** Before it is parsed: Node 26 leaves an error of a key of more than 16384 bits behind, with which the next key would fail. */
const isTooLong = (modulus: unknown): boolean =>
  typeof modulus === 'string' && Buffer.from(modulus, 'base64url').length * 8 > maxRsaBits + 8;
