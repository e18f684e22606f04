import { type Secret, sameSecret } from '../../secret.ts';
import { Backoff, type BackoffOptions, type BackoffRange } from '../../util/backoff.ts';
import type { SetTimer } from '../../util/clock.ts';
import { endsWithin, SingleFlight } from '../../util/promises.ts';
import type { KeySourceObserver } from '../key-source.ts';
import {
  type AuthMethod,
  type Credentials,
  lookUpSelf,
  renewSelf,
  revokeSelf,
  type TokenLease,
} from './auth-methods.ts';
import { assertDue, type VaultClient } from './client.ts';
import { isUnavailable, isVaultError, VaultError } from './errors.ts';

/**
 * Milliseconds. Long where a rejection may cost something: Vault locks an AppRole after five, and a secret ID has limited
 * uses. Kubernetes rejects a valid token while its API server is away.
 */
const ranges: Readonly<Record<AuthMethod['name'], BackoffRange>> = {
  approle: { initial: 30_000, max: 300_000 },
  token: { initial: 30_000, max: 300_000 },
  kubernetes: { initial: 1000, max: 2000 },
};

export type TokenManagerObserver = Pick<
  KeySourceObserver,
  'keyProblem' | 'keySourceUp' | 'loginFailed' | 'tokenExpiryChanged'
>;

interface TokenManagerOptions extends BackoffOptions {
  /** Wall time in milliseconds since 1970, for reporting only. */
  readonly clock: () => number;
  readonly events: TokenManagerObserver;
  readonly setTimer: SetTimer;
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
}

/** A failed login, for the log. */
export function loginProblem(message: string): string {
  return `Vault login failed: ${message}`;
}

/** Milliseconds that {@link TokenManager.stop} may take. */
const maxStopTime = 400;

/**
 * Keeps one Vault token valid: logs in, renews at two thirds of the lease, and logs in again if renewal fails or no
 * longer extends the lease. One login at a time (single flight).
 */
export class TokenManager {
  readonly #client: VaultClient;
  readonly #method: AuthMethod;
  readonly #options: TokenManagerOptions;
  readonly #logIn: ReturnType<typeof createLogin>;
  readonly #retries: Backoff;
  readonly #reports = new Backoff(reportRange);
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
  #running = false;
  #stopped = false;

  constructor(client: VaultClient, method: AuthMethod, options: TokenManagerOptions) {
    this.#client = client;
    this.#method = method;
    this.#options = options;
    this.#logIn = createLogin(method.name, options);
    this.#retries = new Backoff(retryRange, options.random);
  }

  /** Logs in and keeps the token valid in the background. */
  start(): void {
    this.#running = true;
    void this.#keepAlive();
  }

  /**
   * Stops background work, waits for work in flight, and revokes the token unless it was configured. Without the
   * permission to revoke it, the token expires with its lease. Takes a bounded time and never rejects.
   */
  async stop(): Promise<void> {
    this.#running = false;
    this.#stopped = true;
    this.#cancelTimer();
    await endsWithin(
      maxStopTime,
      this.#revocations.run(() => this.#revokeToken()),
    );
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
      if (this.#stopped && this.#inFlight.size === 0) void this.#revocations.run(() => this.#revokeToken());
    }
  }

  async #withToken<T>(work: (token: Secret) => Promise<T>): Promise<T> {
    const workWith = async (held: HeldToken): Promise<T> => {
      const result = await work(held.token);
      held.worked = true;
      return result;
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

  async #revokeToken(): Promise<void> {
    await this.#logins.running?.catch(() => undefined);
    while (this.#inFlight.size > 0) await Promise.allSettled(this.#inFlight);
    const held = this.#alive();
    if (held === undefined || !this.#method.givesNewTokens) return;
    this.#held = undefined;
    await revokeSelf(this.#client, held.token);
  }

  #alive(): HeldToken | undefined {
    const held = this.#held;
    return held !== undefined && this.#options.monotonic() < held.until ? held : undefined;
  }

  async #replacementFor(denied: HeldToken): Promise<HeldToken> {
    const held = this.#alive();
    if (held !== undefined && held.token !== denied.token) return held;
    if (!mayBeUsedUp(denied) && this.#options.monotonic() - denied.verifiedAt < recentlyVerified)
      return denied;
    return this.#checks.run(() => this.#checkToken(denied));
  }

  /**
   * A new token, or the denied one if that is valid: Vault responds in the same way to a revoked token as to one that
   * lacks a permission. If the token may look itself up, that shows it. Otherwise it is only suspected: a new login may
   * help, but not too often, since it may use up a credential and leaves a token behind.
   */
  async #checkToken(denied: HeldToken): Promise<HeldToken> {
    // With a configured token, a login is a lookup.
    if (!this.#method.givesNewTokens) return this.#login();
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
    const { fingerprint } = await this.#method.credentials();
    const now = this.#options.monotonic();
    const isDue = this.#suspicions.isDue(now, fingerprint);
    if (isDue) this.#suspicions.recordFailure(now, {}, fingerprint);
    return isDue;
  }

  async #canLookUp(token: Secret): Promise<boolean> {
    try {
      await lookUpSelf(this.#client, token);
      return true;
    } catch (error) {
      if (isVaultError(error, 'denied')) return false;
      throw error;
    }
  }

  /** A revoked token is not used again: no key can be read until the next login succeeds. */
  #discard(revoked: HeldToken | undefined): void {
    if (revoked === undefined || this.#held?.token !== revoked.token) return;
    this.#held = undefined;
    this.#options.events.tokenExpiryChanged(this.#options.clock() / 1000, revoked.wholeSeconds);
    this.#scheduleRenewal(this.#retries.remaining(this.#options.monotonic()));
  }

  #login(): Promise<HeldToken> {
    return this.#logins.run(() =>
      this.#requestToken().catch((error: unknown) => {
        this.#reportFailure(error);
        throw error;
      }),
    );
  }

  #reportFailure(error: unknown): void {
    if (isVaultError(error, 'backing-off')) return;
    const { events, monotonic } = this.#options;
    const problem = loginProblem(error instanceof Error ? error.message : 'unknown');
    // With a valid token, keys can still be read.
    const report = this.#alive() === undefined ? 'loginFailed' : 'keyProblem';
    if (!this.#reports.isDue(monotonic(), report + problem)) return;
    this.#reports.recordFailure(monotonic(), {}, report + problem);
    events[report](problem);
  }

  async #requestToken(): Promise<HeldToken> {
    const credentials = await this.#method.credentials();
    const { givesNewTokens } = this.#method;
    const lease = await this.#logIn(credentials).catch((error: unknown) => {
      const isHeldToken = !givesNewTokens && credentials.fingerprint === this.#loggedInWith;
      if (isHeldToken && isVaultError(error, 'bad-credentials')) this.#discard(this.#held);
      throw error;
    });
    // It cannot be found out once the token is revoked. Of a token with limited uses, the lookup would be one.
    if (givesNewTokens && lease.uses === undefined)
      this.#mayLookUp = await this.#canLookUp(lease.token).catch(() => this.#mayLookUp);
    this.#loggedInWith = credentials.fingerprint;
    this.#reports.reset();
    this.#options.events.keySourceUp(true);
    return this.#hold(lease, lease.seconds);
  }

  #hold(lease: TokenLease, firstSeconds: number): HeldToken {
    const now = this.#options.monotonic();
    const until = lease.seconds === 0 ? Number.POSITIVE_INFINITY : now + lease.seconds * 1000;
    const wholeSeconds = this.#wholeSecondsOf(lease);
    const held = { ...lease, wholeSeconds, until, firstSeconds, verifiedAt: now, worked: false };
    this.#held = held;
    this.#retries.reset();
    if (lease.seconds === 0) this.#options.events.tokenExpiryChanged(undefined);
    else this.#options.events.tokenExpiryChanged(this.#wallTime(held.until) / 1000, held.wholeSeconds);
    if (lease.seconds > 0) {
      if (!lease.renewable) this.#warnExpiry(held);
      this.#scheduleRenewal(lease.seconds * 1000 * (2 / 3) * (0.9 + 0.2 * this.#options.random()));
    }
    return held;
  }

  /** Near the end of a configured token, lookups and renewals return ever shorter leases: not its full length. */
  #wholeSecondsOf({ token, wholeSeconds }: TokenLease): number {
    const previous = this.#method.givesNewTokens ? undefined : this.#held;
    const isSame = previous !== undefined && sameSecret(previous.token, token);
    return isSame ? Math.max(previous.wholeSeconds, wholeSeconds) : wholeSeconds;
  }

  /** Only a configured token needs a warning: others are replaced by a login. */
  #warnExpiry({ until }: HeldToken): void {
    if (this.#method.givesNewTokens) return;
    const expiry = new Date(this.#wallTime(until)).toISOString();
    this.#options.events.keyProblem(`the configured Vault token expires at ${expiry}; replace it`);
  }

  /** Converts a monotonic time to milliseconds since 1970. */
  #wallTime(monotonic: number): number {
    return this.#options.clock() + (monotonic - this.#options.monotonic());
  }

  #scheduleRenewal(milliseconds: number): void {
    this.#cancelTimer();
    if (!this.#running) return;
    this.#cancelTimer = this.#options.setTimer(() => void this.#keepAlive(), milliseconds);
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
    } else this.#hold({ ...held, ...lease, token: held.token }, held.firstSeconds).worked = held.worked;
  }
}

/** Whether a token that is denied a request may be used up: it has worked, so it lacks no permission. */
function mayBeUsedUp({ uses, worked }: HeldToken): boolean {
  return uses !== undefined && worked;
}

/**
 * Logs in, unless Vault has just rejected these credentials. Changed ones are tried at once.
 *
 * The returned function throws VaultError `backing-off`, `bad-credentials`, `spent-wrapping`, and as the login does.
 */
function createLogin(
  method: AuthMethod['name'],
  { monotonic, random }: BackoffOptions,
): (credentials: Credentials) => Promise<TokenLease> {
  const rejected = new Backoff(ranges[method], random);
  let last: VaultError | undefined;
  return async ({ fingerprint, logIn }) => {
    assertDue(rejected, monotonic(), last, fingerprint);
    try {
      const lease = await logIn();
      rejected.reset();
      return lease;
    } catch (error) {
      if (!isVaultError(error, 'rejected', 'denied', 'spent-wrapping')) throw error;
      const status = error.status === undefined ? {} : { status: error.status };
      const rejection = () => new VaultError('bad-credentials', { ...status, note: method });
      last = error.kind === 'spent-wrapping' ? error : rejection();
      rejected.recordFailure(monotonic(), {}, fingerprint);
      throw last;
    }
  };
}
