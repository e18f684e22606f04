import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Secret, sameSecret } from '../../secret.ts';
import { Backoff, type BackoffOptions } from '../../util/backoff.ts';
import { type SetTimer, setTimer, type WallClock } from '../../util/clock.ts';
import { endsWithin, SingleFlight } from '../../util/promises.ts';
import type { KeySourceObserver } from '../key-source.ts';
import {
  type AuthConfig,
  type Credentials,
  credentialsReader,
  isValid,
  renewSelf,
  revokeSelf,
  type TokenLease,
} from './auth-methods.ts';
import type { VaultClient } from './client.ts';
import { isUnavailable, isVaultError, problemOf, VaultError } from './errors.ts';

/** Milliseconds between logins while Vault is unavailable, and between lookups because of denied requests. */
const second = 1000;
/** Milliseconds: the longest wait between logins that Vault rejects or that may not help, and between equal reports. */
const longWait = 300_000;
/** Vault locks an AppRole after five rejected logins, and a secret ID has limited uses. */
const rejectionRange = { initial: 30_000, max: longWait };
const reportRange = { initial: longWait, max: longWait, jitter: 0 };
/** Milliseconds that {@link TokenManager.stop} may take. */
const maxStopTime = 400;

/** The clock is for reporting only. */
export interface TokenManagerOptions extends BackoffOptions, WallClock {
  readonly events: Pick<
    KeySourceObserver,
    'keyProblem' | 'keySourceUp' | 'loginFailed' | 'tokenExpiryChanged'
  >;
  /** The process's timers unless given. */
  readonly setTimer?: SetTimer;
}

interface HeldToken extends TokenLease {
  /** Fingerprint of the credentials that it is from. */
  readonly fingerprint: string;
  /** When it expires; monotonic, milliseconds. */
  readonly until: number;
  /** When it was last looked up, or obtained; monotonic, milliseconds. */
  checkedAt: number;
}

/**
 * Keeps one Vault token valid: logs in, renews at two thirds of the lease, and logs in again if renewal fails or no
 * longer grants the whole lease. One login at a time (single flight).
 */
export class TokenManager {
  readonly #client: VaultClient;
  readonly #method: AuthConfig['method'];
  readonly #readCredentials: () => Promise<Credentials>;
  readonly #options: TokenManagerOptions;
  readonly #reports = new Backoff(reportRange);
  /** By credentials: logins that Vault rejected. */
  readonly #rejections: Backoff;
  /** When the next login is due after other failures. Monotonic, milliseconds, as the next. */
  #loginDueAt = Number.NEGATIVE_INFINITY;
  /** When it is worth a login that a denied token may have been revoked. */
  #suspicionDueAt = Number.NEGATIVE_INFINITY;
  #lastFailure: VaultError | undefined;
  #held: HeldToken | undefined;
  #loggedInOnce = false;
  readonly #logins = new SingleFlight<HeldToken>();
  readonly #checks = new SingleFlight<HeldToken>();
  readonly #revocations = new SingleFlight<void>();
  readonly #inFlight = new Set<Promise<unknown>>();
  #cancelTimer = (): void => {};
  #state: 'idle' | 'running' | 'stopped' = 'idle';

  constructor(client: VaultClient, auth: AuthConfig, options: TokenManagerOptions) {
    this.#client = client;
    this.#method = auth.method;
    this.#readCredentials = credentialsReader(auth, client);
    this.#options = options;
    this.#rejections = new Backoff(rejectionRange, options.random);
  }

  /** Logs in and keeps the token valid in the background. */
  start(): void {
    this.#state = 'running';
    void this.#keepAlive();
  }

  /**
   * Stops background work, waits for work in flight, and revokes the token unless it was configured. Without the
   * permission to revoke it, the token expires with its lease. Takes a bounded time and never rejects.
   */
  async stop(): Promise<void> {
    this.#state = 'stopped';
    this.#cancelTimer();
    await endsWithin(maxStopTime, this.#revoke());
  }

  get loggedInOnce(): boolean {
    return this.#loggedInOnce;
  }

  /**
   * Runs `work` with the token. If it is denied because the token was revoked, it runs once more with a new token.
   *
   * @throws VaultError
   */
  async withToken<T>(work: (token: Secret) => Promise<T>): Promise<T> {
    const result = this.#withToken(work);
    this.#inFlight.add(result);
    try {
      return await result;
    } finally {
      this.#inFlight.delete(result);
      // A reload may have stopped this while requests waited to be signed for, which log in again then.
      if (this.#state === 'stopped') void this.#revoke();
    }
  }

  async #withToken<T>(work: (token: Secret) => Promise<T>): Promise<T> {
    const held = this.#alive() ?? (await this.#login());
    try {
      return await work(held.token);
    } catch (error) {
      if (!isVaultError(error, 'denied')) throw error;
      const next = await this.#replacementFor(held);
      if (sameSecret(next.token, held.token)) throw error;
      return work(next.token);
    }
  }

  #revoke(): Promise<void> {
    return this.#revocations.run(async () => {
      // Until nothing is left: a request that waited to be signed for may log in during a revocation.
      for (;;) {
        await Promise.allSettled([...this.#inFlight, this.#logins.running]);
        // A read of several versions may now be about to send its next request.
        await nextTurn();
        if (this.#inFlight.size > 0 || this.#logins.running !== undefined) continue;
        const held = this.#alive();
        if (held === undefined || !this.#givesNewTokens) return;
        this.#held = undefined;
        await revokeSelf(this.#client, held.token);
      }
    });
  }

  /** Whether a login returns a new token. A configured token can only be looked up again. */
  get #givesNewTokens(): boolean {
    return this.#method !== 'token';
  }

  #alive(): HeldToken | undefined {
    const held = this.#held;
    return held !== undefined && this.#options.monotonic() < held.until ? held : undefined;
  }

  /** The same token if the request was denied because of its path. Whether it was, is looked up once a second. */
  async #replacementFor(denied: HeldToken): Promise<HeldToken> {
    const held = this.#alive() ?? (await this.#login());
    const isOther = !sameSecret(held.token, denied.token);
    if (isOther || this.#options.monotonic() < held.checkedAt + second) return held;
    return this.#checks.run(() => this.#check(held));
  }

  /**
   * Vault responds in the same way to a revoked token as to one that lacks a permission, so the token looks itself up. If
   * it never could, this shows nothing, and a new login may help. So may credentials that were changed.
   */
  async #check(held: HeldToken): Promise<HeldToken> {
    const isKnownValid = await isValid(this.#client, held.token);
    const now = this.#options.monotonic();
    held.checkedAt = now;
    if (!isKnownValid && held.canLookUp) {
      this.#discard(held);
      return this.#alive() ?? this.#login();
    }
    const { fingerprint } = await this.#readCredentials().catch(() => held);
    const isSuspect = !isKnownValid && now >= this.#suspicionDueAt;
    if (fingerprint === held.fingerprint && !isSuspect) return held;
    // If that fails, the request was denied all the same, and others may be permitted.
    const next = await this.#login().catch(() => held);
    if (next === held) return held;
    this.#suspicionDueAt = now + longWait;
    if (this.#givesNewTokens) await revokeSelf(this.#client, held.token);
    return next;
  }

  /** A revoked token is not used again: no key can be read until the next login succeeds. */
  #discard({ token, wholeSeconds }: HeldToken): void {
    if (this.#held?.token !== token) return;
    this.#held = undefined;
    this.#options.events.tokenExpiryChanged(this.#options.clock() / 1000, wholeSeconds);
    this.#retryLater();
  }

  #login(): Promise<HeldToken> {
    return this.#logins.run(() => this.#logIn().catch((error: unknown) => this.#report(error)));
  }

  /** Unless Vault has just rejected these credentials, or was unavailable. */
  async #logIn(): Promise<HeldToken> {
    const { fingerprint, logIn } = await this.#readCredentials();
    const now = this.#options.monotonic();
    const wait = Math.max(this.#loginDueAt - now, this.#rejections.remaining(now, fingerprint));
    if (wait > 0) throw backingOff(this.#lastFailure);
    const lease = await logIn().catch((error: unknown) => this.#failed(error, fingerprint, now));
    this.#rejections.reset();
    this.#reports.reset();
    this.#loggedInOnce = true;
    this.#options.events.keySourceUp(true);
    return this.#hold(lease, fingerprint);
  }

  #failed(error: unknown, fingerprint: string, beganAt: number): never {
    if (!(error instanceof VaultError)) throw error;
    const isRejected = isVaultError(error, 'rejected', 'denied');
    this.#lastFailure = isRejected
      ? new VaultError('bad-credentials', { status: error.status, note: this.#method })
      : error;
    const now = this.#options.monotonic();
    // Kubernetes rejects a valid token while its API server is away.
    if (error.kind === 'limited-uses' || (isRejected && this.#method !== 'kubernetes'))
      this.#rejections.recordFailure(now, fingerprint);
    else this.#loginDueAt = beganAt + second;
    throw this.#lastFailure;
  }

  #report(error: unknown): never {
    const { events, monotonic } = this.#options;
    if (error instanceof VaultError) error.isOfLogin = true;
    const problem = problemOf(error);
    // With a valid token, keys can still be read.
    const report = this.#alive() === undefined ? 'loginFailed' : 'keyProblem';
    if (this.#reports.isDue(monotonic(), report + problem)) {
      this.#reports.recordFailure(monotonic(), report + problem);
      events[report](problem);
    }
    throw error;
  }

  #hold(lease: TokenLease, fingerprint: string): HeldToken {
    const { clock, events, monotonic, random } = this.#options;
    const now = monotonic();
    const { seconds, token } = lease;
    const previous = this.#held !== undefined && sameSecret(this.#held.token, token) ? this.#held : lease;
    // Near the end of a configured token, Vault grants ever shorter leases: not its full length.
    const wholeSeconds = Math.max(previous.wholeSeconds, lease.wholeSeconds);
    const until = seconds === 0 ? Number.POSITIVE_INFINITY : now + seconds * 1000;
    const held = { ...lease, wholeSeconds, fingerprint, until, checkedAt: now };
    this.#held = held;
    if (seconds === 0) {
      events.tokenExpiryChanged(undefined);
      return held;
    }
    const expiry = clock() + seconds * 1000;
    events.tokenExpiryChanged(expiry / 1000, wholeSeconds);
    if (!this.#givesNewTokens && (!lease.renewable || seconds < wholeSeconds))
      events.keyProblem(
        `the configured Vault token expires at ${new Date(expiry).toISOString()}; replace it`,
      );
    this.#schedule(seconds * 1000 * (2 / 3) * (0.9 + 0.2 * random()));
    return held;
  }

  #schedule(milliseconds: number): void {
    this.#cancelTimer();
    const startTimer = this.#options.setTimer ?? setTimer;
    if (this.#state === 'running') this.#cancelTimer = startTimer(() => void this.#keepAlive(), milliseconds);
  }

  /** Notices changed credential files too. */
  #retryLater(): void {
    this.#schedule(second * (1 + this.#options.random()));
  }

  async #keepAlive(): Promise<void> {
    try {
      const held = this.#alive();
      await (held?.renewable ? this.#renew(held) : this.#login());
    } catch {
      this.#retryLater();
    }
  }

  /** A shorter lease shows that the token's maximum TTL is near. */
  async #renew(held: HeldToken): Promise<void> {
    const lease = await renewSelf(this.#client, held).catch((error: unknown) => {
      if (isUnavailable(error)) throw error;
    });
    // It was or will be revoked, or another one took its place.
    if (this.#state === 'stopped' || this.#held !== held) return;
    if (lease === undefined || lease.seconds < held.wholeSeconds) await this.#login();
    else this.#hold(lease, held.fingerprint);
  }
}

/** Without a time: credentials that were changed are tried at once. */
function backingOff(last: VaultError | undefined): VaultError {
  const note = last && `last: ${last.message}`;
  return new VaultError('backing-off', { cause: last, note });
}
