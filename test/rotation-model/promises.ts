import { type Agreement, type Attempt, type Ended, placeOf } from './facts.ts';
import type { Judged } from './gateway.ts';
import { attacker, type Form, rotating } from './schedule.ts';

/** Of rule 4: the current key, two others, three new ones, and three in the second round. */
const mostAttempts = 9;
/** Milliseconds that a request waits at most after a rejection, with its signatures. */
const longestWait = 1_000 + 200 + mostAttempts * 5;
/** Milliseconds until the source is asked again after it failed, and after it did not know a login. */
const forgotten = { failure: 3_000, unknown: 11_000 };
/** Looks in any ten seconds: 30 a second, and a burst; they may begin a second later than they are counted. */
const looks = { window: 10_000, most: 30 * 12 };

/** One caller at one endpoint. */
interface Place {
  isRejected: boolean;
  /** Whether a payment tries another key, and the steps were not reset meanwhile. */
  isTrying: boolean;
  trials: number;
  triedAt: number;
}

interface Login {
  current: string | undefined;
  /** By key: when the last request was sent with which the gateway verified it, and the last one that it accepted. */
  readonly verified: Map<string, number>;
  readonly accepted: Map<string, number>;
  readonly places: Map<string, Place>;
  /** By caller: since when a payment tries another key; until it ends. */
  readonly trials: Map<string, number>;
  wasCached: boolean;
}

interface PromisesOptions {
  readonly agreement: Agreement;
  readonly ttl: number;
  readonly now: () => number;
  readonly violate: (text: string) => void;
}

/** What one instance promises whatever gateway, callers and Vault do. */
export class Promises {
  readonly #options: PromisesOptions;
  readonly #logins = new Map<string, Login>();
  readonly #attempts = new Map<number, number>();
  readonly #lookedAt = new Map<string, number>();
  #looks: number[] = [];

  constructor(options: PromisesOptions) {
    this.#options = options;
  }

  /** Rule 6: at most one look a second at a login, and 30 in all. */
  looked(login: string): void {
    const now = this.#options.now();
    const since = now - (this.#lookedAt.get(login) ?? Number.NEGATIVE_INFINITY);
    this.#expect(since >= 1_000, `a look at ${login} ${since} ms after the last one`);
    this.#lookedAt.set(login, now);
    this.#looks = [...this.#looks.filter((at) => at > now - looks.window), now];
    this.#expect(this.#looks.length <= looks.most, `${this.#looks.length} looks in 10 s`);
  }

  /** Other keys may be tried at once. */
  stepsReset(): void {
    for (const { places } of this.#logins.values())
      for (const place of places.values()) Object.assign(place, { trials: 0, isTrying: false });
  }

  /** Rule 5: only after its own rejection of the current key, in steps, and one at a time. */
  trialBegins(form: Form): void {
    const now = this.#options.now();
    const login = this.#loginOf(form.login);
    const place = placeIn(login, form);
    const since = now - place.triedAt;
    const step = place.trials === 0 ? 0 : Math.min(10_000, 1_000 * 2 ** (place.trials - 1));
    this.#expect(place.isRejected, `a key is tried for ${describe(form)}, of which none was rejected`);
    this.#expect(since >= step, `a key is tried for ${describe(form)} ${since} ms after another one`);
    const other = login.trials.get(form.caller) ?? Number.NEGATIVE_INFINITY;
    this.#expect(now - other >= 1_000, `two payments of ${form.caller} try another key at a time`);
    place.isTrying = true;
    login.trials.set(form.caller, now);
  }

  isOnTrial({ login, caller }: Form): boolean {
    return this.#loginOf(login).trials.has(caller);
  }

  sent({ form, key }: Attempt): void {
    const attempts = (this.#attempts.get(form.id) ?? 0) + 1;
    this.#attempts.set(form.id, attempts);
    this.#expect(form.operation === 'query' || attempts === 1, `${describe(form)} was sent twice`);
    this.#expect(attempts <= mostAttempts, `${describe(form)} was sent ${attempts} times`);
    const { agreement, ttl, now } = this.#options;
    const late = now() - agreement.vault.deletedSince(form.login, key) - ttl - 1_000;
    const isWell = agreement.vault.isWellFor(forgotten.failure);
    this.#expect(!isWell || late <= 0, `signed with key ${key}, deleted in Vault; ${late} ms too late`);
  }

  /** @param current the key that signs when the response comes */
  received(
    { form, key, sentAt, isTrial }: Attempt,
    { response, isVerified }: Judged,
    current: string | undefined,
  ): void {
    const login = this.#loginOf(form.login);
    const place = placeIn(login, form);
    if (response?.status === 403 && form.operation === 'payment') {
      if (key === current) place.isRejected = true;
      if (isTrial && place.isTrying)
        Object.assign(place, { trials: place.trials + 1, triedAt: this.#options.now() });
    }
    if (!isVerified) return;
    const isAccepted = response?.status === 200;
    if (isAccepted && key === current) place.isRejected = false;
    for (const map of isAccepted ? [login.verified, login.accepted] : [login.verified])
      map.set(key, Math.max(sentAt, map.get(key) ?? 0));
  }

  /** @param current the key that signs now; `undefined`: the login is not in memory */
  ended(ended: Ended, current: string | undefined, keysNow: readonly string[]): void {
    const { form, end, startedAt, upstream, keysBefore } = ended;
    const login = this.#loginOf(form.login);
    if (ended.last?.isTrial === true) login.trials.delete(form.caller);
    this.#attempts.delete(form.id);
    this.#currentIs(login, current, keysNow);
    login.wasCached ||= current !== undefined;
    const waited = this.#options.now() - startedAt - upstream;
    const isQuick = keysBefore.length === 0 || waited <= longestWait;
    this.#expect(isQuick, `${describe(form)} waited for ${waited} ms`);
    const isVictim = form.login === rotating && form.caller !== attacker;
    if (isVictim && typeof end === 'string') this.#answeredItself(form, login, end);
  }

  /** Rule 2: only the gateway moves it, with a request that was sent later than the one that made it current. */
  #currentIs(login: Login, current: string | undefined, keysNow: readonly string[]): void {
    const { current: before } = login;
    login.current = current;
    if (before === current || before === undefined || current === undefined || !keysNow.includes(before))
      return;
    for (const place of login.places.values()) Object.assign(place, { trials: 0, isRejected: false });
    const [since = 0, until] = [login.accepted.get(before), login.verified.get(current)];
    const replaces = `key ${current} replaces ${before}`;
    this.#expect(until !== undefined, `${replaces}, though the gateway never accepted it`);
    this.#expect((until ?? since) >= since, `${replaces}, which was accepted later`);
  }

  /** Cached keys survive whatever Vault does; and Vault's keys are found. */
  #answeredItself(form: Form, { wasCached }: Login, reason: string): void {
    const { vault } = this.#options.agreement;
    const isDeleted = reason === 'key-missing' && vault.keysOf(form.login).length === 0;
    const grace = reason === 'key-missing' ? forgotten.unknown : forgotten.failure;
    const mayLack = !wasCached && !vault.isWellFor(grace);
    const isKept = reason === 'gateway-timeout' || isDeleted || mayLack;
    this.#expect(isKept, `${describe(form)} was not sent: ${reason}`);
  }

  #expect(isKept: boolean, violation: string): void {
    if (!isKept) this.#options.violate(violation);
  }

  #loginOf(name: string): Login {
    const maps = { verified: new Map(), accepted: new Map(), places: new Map(), trials: new Map() };
    const login = this.#logins.get(name) ?? { ...maps, current: undefined, wasCached: false };
    this.#logins.set(name, login);
    return login;
  }
}

function placeIn({ places }: Login, form: Form): Place {
  const place = places.get(placeOf(form)) ?? { isRejected: false, isTrying: false, trials: 0, triedAt: 0 };
  places.set(placeOf(form), place);
  return place;
}

function describe({ id, caller, operation, endpoint }: Form): string {
  return `${operation} #${id} of ${caller} at ${endpoint}`;
}
