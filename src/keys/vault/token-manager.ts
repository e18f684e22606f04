import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Secret, sameSecret } from '../../secret.ts';
import { Backoff, type BackoffOptions, type BackoffRange } from '../../util/backoff.ts';
import { type SetTimer, setTimer, type WallClock } from '../../util/clock.ts';
import { endsWithin, SingleFlight } from '../../util/promises.ts';
import type { KeySourceObserver } from '../key-source.ts';
import {
  type AuthConfig,
  type Credentials,
  credentialsReader,
  lookUpSelf,
  renewSelf,
  revokeSelf,
  type TokenLease,
} from './auth-methods.ts';
import { assertDue } from './circuit-breaker.ts';
import type { VaultClient } from './client.ts';
import { isUnavailable, isVaultError, problemOf, VaultError } from './errors.ts';

/**
 * Milliseconds. Long where a rejection may cost something: Vault locks an AppRole after five, and a secret ID has limited
 * uses. Kubernetes rejects a valid token while its API server is away.
 */
const ranges: Readonly<Record<AuthConfig['method'], BackoffRange>> = {
  approle: { initial: 30_000, max: 300_000 },
  token: { initial: 30_000, max: 300_000 },
  kubernetes: { initial: 1000, max: 2000 },
};

/** The clock is for reporting only. */
export interface TokenManagerOptions extends BackoffOptions, WallClock {
  readonly events: Pick<
    KeySourceObserver,
    'keyProblem' | 'keySourceUp' | 'loginFailed' | 'tokenExpiryChanged'
  >;
  /** The process's timers unless given. */
  readonly setTimer?: SetTimer;
}

/**
 * Milliseconds between background retries. They notice changed credential files; what is sent to Vault is limited by the
 * circuit breaker and by the back-off of rejected credentials.
 */
const retryRange = { initial: 1000, max: 2000 };
/** Milliseconds between logins with the same credentials because of a suspected token. */
const suspicionRange = { initial: 600_000, max: 600_000, jitter: 0 };
/** Milliseconds between reports of the same problem. */
const reportRange = { initial: 300_000, max: 300_000, jitter: 0 };
/**
 * Milliseconds. A token that was valid so recently lacks a permission if it is denied. Short, because a token that
 * was revoked meanwhile is noticed only after this time.
 */
const recentlyVerified = 1000;

interface HeldToken extends TokenLease {
  /** When it expires; monotonic, milliseconds. */
  readonly until: number;
  /** Seconds of the first lease of this token. Much shorter renewals mean that it is near its maximum TTL. */
  readonly firstSeconds: number;
  /** When it was last known to be valid; monotonic, milliseconds. */
  verifiedAt: number;
  /** Whether something was done with it that needs a permission. */
  worked: boolean;
  /** Whether a request was denied before that: it lacks a permission, however many uses are left. */
  lacks: boolean;
}

/** Milliseconds that {@link TokenManager.stop} may take. */
const maxStopTime = 400;

/**
 * Keeps one Vault token valid: logs in, renews at two thirds of the lease, and logs in again if renewal fails or no
 * longer extends the lease. One login at a time (single flight).
 */
export class TokenManager {
  readonly #client: VaultClient;
  readonly #method: AuthConfig['method'];
  readonly #readCredentials: () => Promise<Credentials>;
  readonly #options: TokenManagerOptions;
  readonly #retries: Backoff;
  readonly #reports = new Backoff(reportRange);
  /** By credentials: logins that Vault rejected. */
  readonly #rejections: Backoff;
  #lastRejection: VaultError | undefined;
  /** By credentials: logins because of a suspected token. */
  readonly #suspicions = new Backoff(suspicionRange);
  /** Whether tokens may look themselves up, as the policy `default` permits. */
  #mayLookUp = false;
  #held: HeldToken | undefined;
  /** Fingerprint of the credentials of the last login; absent before the first one. */
  #loggedInWith: string | undefined;
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
    this.#retries = new Backoff(retryRange, options.random);
    this.#rejections = new Backoff(ranges[auth.method], options.random);
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
    return this.#loggedInWith !== undefined;
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
    const workWith = async (held: HeldToken): Promise<T> => {
      try {
        const result = await work(held.token);
        held.worked = true;
        return result;
      } catch (error) {
        held.lacks ||= !held.worked && isVaultError(error, 'denied');
        // Vault says so only to a token that may read.
        held.worked ||= isVaultError(error, 'not-found', 'deleted');
        throw error;
      }
    };
    const held = this.#alive() ?? (await this.#login());
    try {
      return await workWith(held);
    } catch (error) {
      if (!isVaultError(error, 'denied')) throw error;
      const next = await this.#replacementFor(held);
      if (next === held) throw error;
      return workWith(next);
    }
  }

  #revoke(): Promise<void> {
    return this.#revocations.run(async () => {
      await this.#logins.running?.catch(() => undefined);
      do {
        await Promise.allSettled(this.#inFlight);
        // A read of several versions may now be about to send its next request.
        await nextTurn();
      } while (this.#inFlight.size > 0);
      const held = this.#alive();
      if (held === undefined || !this.#givesNewTokens) return;
      this.#held = undefined;
      await revokeSelf(this.#client, held.token);
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

  async #replacementFor(denied: HeldToken): Promise<HeldToken> {
    const held = this.#alive();
    if (held !== undefined && held.token !== denied.token) return held;
    const isRecent = this.#options.monotonic() - denied.verifiedAt < recentlyVerified;
    if (isRecent && (denied.lacks || !mayBeUsedUp(denied))) return denied;
    return this.#checks.run(() => this.#checkToken(denied));
  }

  /**
   * A new token, or the denied one if that is valid: Vault responds in the same way to a revoked token as to one that
   * lacks a permission. If the token may look itself up, that shows it. Otherwise it is only suspected: a new login may
   * help, but not too often, since it may use up a credential and leaves a token behind.
   */
  async #checkToken(denied: HeldToken): Promise<HeldToken> {
    // With a configured token, a login is a lookup.
    if (!this.#givesNewTokens) return this.#login();
    const isValid = await this.#canLookUp(denied.token);
    const isRevoked = this.#mayLookUp;
    if (isValid || !(isRevoked || mayBeUsedUp(denied) || (await this.#maySuspect()))) {
      denied.verifiedAt = this.#options.monotonic();
      return denied;
    }
    if (isRevoked) this.#discard(denied);
    const next = await this.#login().catch((error: unknown) => {
      if (isUnavailable(error)) this.#suspicions.reset();
      throw error;
    });
    // A suspected token may still be valid.
    if (!isRevoked) await revokeSelf(this.#client, denied.token);
    return next;
  }

  async #maySuspect(): Promise<boolean> {
    const { fingerprint } = await this.#readCredentials().catch(failedLogin);
    const now = this.#options.monotonic();
    const isDue = this.#suspicions.isDue(now, fingerprint);
    if (isDue) this.#suspicions.recordFailure(now, {}, fingerprint);
    return isDue;
  }

  #canLookUp(token: Secret): Promise<boolean> {
    const notIfDenied = (error: unknown): boolean => {
      if (isVaultError(error, 'denied')) return false;
      throw error;
    };
    return lookUpSelf(this.#client, token).then(() => true, notIfDenied);
  }

  /** A revoked token is not used again: no key can be read until the next login succeeds. */
  #discard(revoked: HeldToken | undefined): void {
    if (revoked === undefined || this.#held?.token !== revoked.token) return;
    this.#held = undefined;
    this.#options.events.tokenExpiryChanged(this.#options.clock() / 1000, revoked.wholeSeconds);
    this.#scheduleRenewal(this.#retries.remaining(this.#options.monotonic()));
  }

  #login(): Promise<HeldToken> {
    return this.#logins.run(() => this.#requestToken().catch((error: unknown) => this.#failed(error)));
  }

  #failed(error: unknown): never {
    const { events, monotonic } = this.#options;
    if (error instanceof VaultError) error.isOfLogin = true;
    const problem = problemOf(error);
    // With a valid token, keys can still be read.
    const report = this.#alive() === undefined ? 'loginFailed' : 'keyProblem';
    if (!isVaultError(error, 'backing-off') && this.#reports.isDue(monotonic(), report + problem)) {
      this.#reports.recordFailure(monotonic(), {}, report + problem);
      events[report](problem);
    }
    throw error;
  }

  async #requestToken(): Promise<HeldToken> {
    const credentials = await this.#readCredentials();
    const lease = await this.#logIn(credentials);
    // It cannot be found out once the token is revoked. Of a token with limited uses, the lookup would be one.
    if (this.#givesNewTokens && lease.uses === 0)
      this.#mayLookUp = await this.#canLookUp(lease.token).catch(() => this.#mayLookUp);
    this.#loggedInWith = credentials.fingerprint;
    this.#reports.reset();
    this.#options.events.keySourceUp(true);
    return this.#hold(lease, lease.seconds);
  }

  /** Unless Vault has just rejected these credentials. Changed ones are tried at once. */
  async #logIn({ fingerprint, logIn }: Credentials): Promise<TokenLease> {
    const { monotonic } = this.#options;
    assertDue(this.#rejections, monotonic(), this.#lastRejection, fingerprint);
    try {
      const lease = await logIn();
      this.#rejections.reset();
      return lease;
    } catch (error) {
      if (!isVaultError(error, 'rejected', 'denied')) throw error;
      this.#lastRejection = new VaultError('bad-credentials', { status: error.status, note: this.#method });
      this.#rejections.recordFailure(monotonic(), {}, fingerprint);
      // A configured token that is rejected was revoked.
      if (!this.#givesNewTokens && fingerprint === this.#loggedInWith) this.#discard(this.#held);
      throw this.#lastRejection;
    }
  }

  #hold(lease: TokenLease, firstSeconds: number): HeldToken {
    const { events, random } = this.#options;
    const now = this.#options.monotonic();
    const until = lease.seconds === 0 ? Number.POSITIVE_INFINITY : now + lease.seconds * 1000;
    const wholeSeconds = this.#wholeSecondsOf(lease);
    const state = { verifiedAt: now, worked: false, lacks: false };
    const held = { ...lease, wholeSeconds, until, firstSeconds, ...state };
    this.#held = held;
    this.#retries.reset();
    if (lease.seconds === 0) {
      events.tokenExpiryChanged(undefined);
    } else {
      events.tokenExpiryChanged(this.#wallTime(until) / 1000, wholeSeconds);
      if (!lease.renewable) this.#warnExpiry(held);
      this.#scheduleRenewal(lease.seconds * 1000 * (2 / 3) * (0.9 + 0.2 * random()));
    }
    return held;
  }

  /** Near the end of a configured token, lookups and renewals return ever shorter leases: not its full length. */
  #wholeSecondsOf({ token, wholeSeconds }: TokenLease): number {
    const previous = this.#givesNewTokens ? undefined : this.#held;
    const isSame = previous !== undefined && sameSecret(previous.token, token);
    return isSame ? Math.max(previous.wholeSeconds, wholeSeconds) : wholeSeconds;
  }

  /** Only a configured token needs a warning: others are replaced by a login. */
  #warnExpiry({ until }: HeldToken): void {
    if (this.#givesNewTokens) return;
    const expiry = new Date(this.#wallTime(until)).toISOString();
    this.#options.events.keyProblem(`the configured Vault token expires at ${expiry}; replace it`);
  }

  /** Converts a monotonic time to milliseconds since 1970. */
  #wallTime(monotonic: number): number {
    return this.#options.clock() + (monotonic - this.#options.monotonic());
  }

  #scheduleRenewal(milliseconds: number): void {
    this.#cancelTimer();
    const startTimer = this.#options.setTimer ?? setTimer;
    if (this.#state === 'running') this.#cancelTimer = startTimer(() => void this.#keepAlive(), milliseconds);
  }

  async #keepAlive(): Promise<void> {
    try {
      const held = this.#alive();
      await (held?.renewable ? this.#renew(held) : this.#login());
    } catch {
      const now = this.#options.monotonic();
      this.#retries.recordFailure(now);
      this.#scheduleRenewal(this.#retries.remaining(now));
    }
  }

  async #renew(held: HeldToken): Promise<void> {
    const lease = await renewSelf(this.#client, held.token).catch((error: unknown) => {
      if (isUnavailable(error) || isVaultError(error, 'backing-off')) throw error;
    });
    // Near a token's maximum TTL, renewals return ever shorter leases.
    if (lease === undefined || lease.seconds * 3 <= held.firstSeconds) {
      this.#warnExpiry(held);
      await this.#login();
    } else {
      const { token, uses, firstSeconds, worked } = held;
      this.#hold({ ...lease, token, uses }, firstSeconds).worked = worked;
    }
  }
}

/** Without credentials there is no other token, whatever the denied request was about. */
function failedLogin(error: unknown): never {
  if (error instanceof VaultError) error.isOfLogin = true;
  throw error;
}

/** Whether a token that is denied a request may be used up: it has worked, so it lacks no permission. */
function mayBeUsedUp({ uses, worked }: HeldToken): boolean {
  return uses > 0 && worked;
}
