import { type Agreement, type Attempt, type Ended, isRejected, placeOf } from './facts.ts';
import type { Form, Judged } from './gateway.ts';
import { attackers, rotating } from './schedule.ts';

/** Of rule 4: the current key, two others, three new ones, and three in the second round. */
const mostAttempts = 9;
/** Milliseconds that a request waits at most after a rejection, with its signatures. */
const longestWait = 1_000 + 200 + mostAttempts * 5;
/** Milliseconds after which a login that was not used is read before it is used again, for a second at most. */
const idle = { after: 600_000, wait: 1_000 };
/** Milliseconds until the source is asked again after it failed, and after it did not know a login. */
const forgotten = { failure: 3_000, unknown: 11_000 };
/** Looks in any ten seconds: 30 a second, and a burst, also after each of two reloads; they may begin a second later than they are counted. */
const looks = { window: 10_000, most: 30 * 14 };

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
  /** By key: when the last request was sent with which the gateway verified it. */
  readonly verified: Map<string, number>;
  readonly places: Map<string, Place>;
  /** By caller: since when a payment tries another key; until it ends. */
  readonly trials: Map<string, number>;
  usedAt: number;
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
  readonly #violate: (text: string) => void;
  #looks: number[] = [];

  constructor(options: PromisesOptions) {
    this.#options = options;
    this.#violate = options.violate;
  }

  /** Rule 6: at most one look a second at a login, and 30 in all. After a reload there may be two readers for a while. */
  looked(login: string, reader: number): void {
    const now = this.#options.now();
    const name = `${login}, reader ${reader}`;
    const since = now - (this.#lookedAt.get(name) ?? Number.NEGATIVE_INFINITY);
    if (since < 1_000) this.#violate(`a look at ${login} ${since} ms after the last one`);
    this.#lookedAt.set(name, now);
    this.#looks = [...this.#looks.filter((at) => at > now - looks.window), now];
    if (this.#looks.length > looks.most) this.#violate(`${this.#looks.length} looks in 10 s`);
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
    const step = place.trials === 0 ? 0 : Math.min(10_000, 1_000 * 2 ** (place.trials - 1));
    if (!place.isRejected) this.#violate(`a key is tried for ${describe(form)}, of which none was rejected`);
    else if (now - place.triedAt < step)
      this.#violate(`a key is tried for ${describe(form)} ${now - place.triedAt} ms after another one`);
    place.isTrying = true;
    const other = login.trials.get(form.caller);
    if (other !== undefined && now - other < 1_000)
      this.#violate(`two payments of ${form.caller} try another key at a time`);
    login.trials.set(form.caller, now);
  }

  isOnTrial({ login, caller }: Form): boolean {
    return this.#loginOf(login).trials.has(caller);
  }

  sent({ form, key }: Attempt): void {
    const attempts = (this.#attempts.get(form.id) ?? 0) + 1;
    this.#attempts.set(form.id, attempts);
    if (form.operation === 'payment' && attempts > 1) this.#violate(`${describe(form)} was sent twice`);
    if (attempts > mostAttempts) this.#violate(`${describe(form)} was sent ${attempts} times`);
    const { agreement, ttl, now } = this.#options;
    const deletedAt = agreement.vault.deletedSince(form.login, key);
    if (deletedAt === undefined || !agreement.vault.isWellFor(forgotten.failure)) return;
    const late = now() - deletedAt - ttl - 1_000;
    if (late > 0) this.#violate(`signed with key ${key}, deleted in Vault; ${late} ms too late`);
  }

  /** @param current the key that signs when the response comes */
  received(
    { form, key, sentAt, isTrial }: Attempt,
    { response, isVerified }: Judged,
    current: string | undefined,
  ): void {
    const login = this.#loginOf(form.login);
    const place = placeIn(login, form);
    if (isRejected(response?.status) && form.operation === 'payment') {
      if (key === current) place.isRejected = true;
      if (isTrial && place.isTrying)
        Object.assign(place, { trials: place.trials + 1, triedAt: this.#options.now() });
    }
    if (!isVerified) return;
    if (response?.status === 200 && key === current) place.isRejected = false;
    login.verified.set(key, Math.max(sentAt, login.verified.get(key) ?? Number.NEGATIVE_INFINITY));
  }

  /** @param current the key that signs now; `undefined`: the login is not in memory */
  ended(ended: Ended, current: string | undefined, keysNow: readonly string[]): void {
    const { form, startedAt, upstream, keysBefore } = ended;
    const login = this.#loginOf(form.login);
    if (ended.last?.isTrial === true) login.trials.delete(form.caller);
    this.#attempts.delete(form.id);
    this.#currentIs(login, current, keysNow);
    const waited = this.#options.now() - startedAt - upstream;
    const mayWait = longestWait + (startedAt - login.usedAt > idle.after ? idle.wait : 0);
    login.usedAt = startedAt;
    login.wasCached ||= current !== undefined;
    if (keysBefore.length > 0 && waited > mayWait) this.#violate(`${describe(form)} waited for ${waited} ms`);
    const isVictim = form.login === rotating && !attackers.includes(form.caller);
    if (isVictim && typeof ended.end === 'string') this.#answeredItself(form, login, ended.end);
  }

  /** Rule 2: only the gateway moves it, with a request that was sent later than the one that made it current. */
  #currentIs(login: Login, current: string | undefined, keysNow: readonly string[]): void {
    const { current: before } = login;
    login.current = current;
    if (before === current || before === undefined || current === undefined || !keysNow.includes(before))
      return;
    for (const place of login.places.values()) Object.assign(place, { trials: 0, isRejected: false });
    const never = Number.NEGATIVE_INFINITY;
    const [since, until] = [login.verified.get(before) ?? never, login.verified.get(current) ?? never];
    if (until === never)
      this.#violate(`key ${current} replaces ${before}, though the gateway never accepted it`);
    else if (until < since) this.#violate(`key ${current} replaces ${before}, which was accepted later`);
  }

  /** Cached keys survive whatever Vault does; and Vault's keys are found. */
  #answeredItself(form: Form, { wasCached }: Login, reason: string): void {
    const { agreement } = this.#options;
    if (reason === 'gateway-timeout') return;
    const isDeleted = reason === 'key-missing' && agreement.vault.keysOf(form.login).length === 0;
    const grace = reason === 'key-missing' ? forgotten.unknown : forgotten.failure;
    const mayLack = !wasCached && !agreement.vault.isWellFor(grace);
    if (!isDeleted && !mayLack) this.#violate(`${describe(form)} was not sent: ${reason}`);
  }

  #loginOf(name: string): Login {
    const known = this.#logins.get(name);
    if (known !== undefined) return known;
    const login: Login = {
      current: undefined,
      verified: new Map(),
      places: new Map(),
      trials: new Map(),
      usedAt: 0,
      wasCached: false,
    };
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
