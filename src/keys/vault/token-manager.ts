import { setTimeout as wait } from 'node:timers/promises';
import type { Secret } from '../../secret.ts';
import { type BackoffOptions, ExponentialBackoff } from '../../util/backoff.ts';
import type { SetTimer } from '../../util/timer.ts';
import type { KeySourceObserver } from '../key-source.ts';
import { renewSelf, revokeSelf, type TokenLease } from './auth-api.ts';
import type { AuthMethod } from './auth-methods.ts';
import type { VaultClient } from './client.ts';
import { isUnavailable, isVaultError } from './errors.ts';
import { type HeldToken, holdLease } from './held-token.ts';
import { LoginReport } from './login-report.ts';
import { RefusedCredentials } from './refused-credentials.ts';
import { TokenCheck } from './token-check.ts';

/** What a session reports. */
export type TokenManagerObserver = Pick<
  KeySourceObserver,
  'keyProblem' | 'keySourceUp' | 'loginFailed' | 'tokenExpiryChanged'
>;

export interface TokenManagerOptions extends BackoffOptions {
  /** Milliseconds since 1970: for what is told, never for what is waited for. */
  readonly clock: () => number;
  readonly events: TokenManagerObserver;
  readonly setTimer: SetTimer;
}

/** How often the background looks for changed files and ended back-offs; asking Vault is up to those. */
const lookAgainRange = { initial: 1000, max: 10_000 };
/**
 * Milliseconds. A token that was good so lately and is denied something lacks the permission. Short, because a token
 * that was revoked meanwhile is noticed only after this time.
 */
const good = 1000;
/** Milliseconds that the end may take. */
const longestStop = 400;

/**
 * Keeps one Vault token alive: logs in, renews at two thirds of the lease, logs in again when renewal is
 * refused or no longer lengthens the token's life. One login at a time, whoever asks for it.
 */
export class TokenManager {
  readonly #client: VaultClient;
  readonly #method: AuthMethod;
  readonly #ports: TokenManagerOptions;
  readonly #refused: RefusedCredentials;
  readonly #retryBackoff: ExponentialBackoff;
  readonly #tokenCheck: TokenCheck;
  readonly #report: LoginReport;
  #held: HeldToken | undefined;
  /** Fingerprint of the credentials that gave the token; absent before the first login. */
  #loggedInWith: string | undefined;
  #loggingIn: Promise<HeldToken> | undefined;
  #judging: Promise<HeldToken> | undefined;
  readonly #inFlight = new Set<Promise<unknown>>();
  #cancelTimer = (): void => {};
  #running = false;

  constructor(client: VaultClient, method: AuthMethod, ports: TokenManagerOptions) {
    this.#client = client;
    this.#method = method;
    this.#ports = ports;
    this.#refused = new RefusedCredentials(ports);
    this.#retryBackoff = new ExponentialBackoff(ports, lookAgainRange);
    this.#tokenCheck = new TokenCheck(client, ports.monotonic);
    this.#report = new LoginReport(ports.events, ports.monotonic);
  }

  /** Logs in, and from then on keeps the token alive in the background. */
  start(): void {
    this.#running = true;
    void this.#keepAlive();
  }

  /**
   * Ends the background at once; then, when the work in flight is done, the token, unless it was handed to us.
   * Where the policy does not allow that, the token ends with its lease. Takes a bounded time and never rejects.
   */
  async stop(): Promise<void> {
    this.#running = false;
    this.#cancelTimer();
    const late = new AbortController();
    const over = wait(longestStop, undefined, { signal: late.signal, ref: false }).catch(() => undefined);
    await Promise.race([over, this.#end()]);
    late.abort();
  }

  get loggedInOnce(): boolean {
    return this.#loggedInWith !== undefined;
  }

  /**
   * Does some work with the token. Work that is denied is done once more with a new token if the old one was
   * revoked; else it is the permission that is missing.
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
    }
  }

  async #withToken<T>(work: (token: Secret) => Promise<T>): Promise<T> {
    const held = this.#alive() ?? (await this.#login());
    try {
      return await work(held.token);
    } catch (error) {
      if (!isVaultError(error, 'denied')) throw error;
      const next = await this.#replacementFor(held);
      if (next === held) throw error;
      return work(next.token);
    }
  }

  async #end(): Promise<void> {
    await Promise.allSettled([...this.#inFlight, this.#loggingIn]);
    const held = this.#alive();
    if (held !== undefined && this.#method.givesNewTokens)
      await revokeSelf(this.#client, held.token).catch(() => undefined);
  }

  #alive(): HeldToken | undefined {
    const held = this.#held;
    return held !== undefined && this.#ports.monotonic() < held.until ? held : undefined;
  }

  async #replacementFor(denied: HeldToken): Promise<HeldToken> {
    const held = this.#alive();
    if (held !== undefined && held.token !== denied.token) return held;
    if (this.#ports.monotonic() - denied.goodAt < good) return denied;
    this.#judging ??= this.#judge(denied).finally(() => {
      this.#judging = undefined;
    });
    return this.#judging;
  }

  /** Gives the token that was denied where it is good. */
  async #judge(denied: HeldToken): Promise<HeldToken> {
    // To log in with a token is to look it up.
    if (!this.#method.givesNewTokens) return this.#login();
    const fingerprint = async () => (await this.#method.credentials()).fingerprint;
    const verdict = await this.#tokenCheck.judge(denied.token, fingerprint);
    if (verdict === 'good') {
      denied.goodAt = this.#ports.monotonic();
      return denied;
    }
    if (verdict === 'revoked') this.#drop(denied);
    const next = await this.#login().catch((error: unknown) => {
      if (isUnavailable(error)) this.#tokenCheck.undecided();
      throw error;
    });
    if (verdict === 'suspected') await this.#tokenCheck.replaced(denied.token);
    return next;
  }

  /** A revoked token is not used again. Nothing can be read until the next login succeeds. */
  #drop(revoked: HeldToken | undefined): void {
    if (revoked === undefined || this.#held?.token !== revoked.token) return;
    this.#held = undefined;
    this.#ports.events.tokenExpiryChanged(this.#ports.clock() / 1000, revoked.wholeSeconds);
    this.#scheduleRenewal(this.#retryBackoff.remaining);
  }

  #login(): Promise<HeldToken> {
    this.#loggingIn ??= this.#requestToken()
      .catch((error: unknown) => {
        this.#report.failed(error, this.#alive() !== undefined);
        throw error;
      })
      .finally(() => {
        this.#loggingIn = undefined;
      });
    return this.#loggingIn;
  }

  async #requestToken(): Promise<HeldToken> {
    const credentials = await this.#method.credentials();
    const { name, givesNewTokens } = this.#method;
    const lease = await this.#refused.logIn(credentials, name).catch((error: unknown) => {
      const isHeldToken = !givesNewTokens && credentials.fingerprint === this.#loggedInWith;
      if (isHeldToken && isVaultError(error, 'bad-credentials')) this.#drop(this.#held);
      throw error;
    });
    if (givesNewTokens) await this.#tokenCheck.learn(lease);
    this.#loggedInWith = credentials.fingerprint;
    this.#report.succeeded();
    this.#ports.events.keySourceUp(true);
    return this.#hold(lease, lease.seconds);
  }

  #hold(lease: TokenLease, firstSeconds: number): HeldToken {
    const before = this.#method.givesNewTokens ? undefined : this.#held;
    const held = holdLease(lease, firstSeconds, this.#ports.monotonic(), before);
    this.#held = held;
    this.#retryBackoff.reset();
    if (lease.seconds === 0) this.#ports.events.tokenExpiryChanged(undefined);
    else this.#ports.events.tokenExpiryChanged(this.#onClock(held.until) / 1000, held.wholeSeconds);
    if (lease.seconds > 0) {
      if (!lease.renewable) this.#warnExpiry(held);
      this.#scheduleRenewal(lease.seconds * 1000 * (2 / 3) * (0.9 + 0.2 * this.#ports.random()));
    }
    return held;
  }

  /** A token that was handed to us is the one kind we cannot replace. */
  #warnExpiry({ until }: HeldToken): void {
    if (this.#method.givesNewTokens) return;
    const end = new Date(this.#onClock(until)).toISOString();
    this.#ports.events.keyProblem(`the configured Vault token expires at ${end}; replace it`);
  }

  /** Milliseconds since 1970 of a moment on the monotonic clock. */
  #onClock(moment: number): number {
    return this.#ports.clock() + (moment - this.#ports.monotonic());
  }

  #scheduleRenewal(milliseconds: number): void {
    this.#cancelTimer();
    if (!this.#running) return;
    this.#cancelTimer = this.#ports.setTimer(() => void this.#keepAlive(), milliseconds);
  }

  async #keepAlive(): Promise<void> {
    try {
      const held = this.#alive();
      await (held?.renewable ? this.#renew(held) : this.#login());
    } catch {
      this.#retryBackoff.recordFailure();
      this.#scheduleRenewal(this.#retryBackoff.remaining);
    }
  }

  async #renew(held: HeldToken): Promise<void> {
    const lease = await renewSelf(this.#client, held.token).catch((error: unknown) => {
      if (isUnavailable(error) || isVaultError(error, 'backing-off')) throw error;
    });
    // Near the end of a token's greatest life, renewals give ever less.
    if (lease !== undefined && lease.seconds * 3 > held.firstSeconds) {
      this.#hold({ ...lease, token: held.token }, held.firstSeconds);
      return;
    }
    this.#warnExpiry(held);
    await this.#login();
  }
}
