import type { RequestContext } from '../request-context.ts';
import type { DebugFields, LogFields, Logger } from './logger.ts';
import type { MetricsObserver } from './metrics-observer.ts';

/** What is written in place of a login that may not be. */
export const redactedLogin = '[redacted: looks like a card number]';

/**
 * Keeps card numbers that callers send as a login out of the log, the metrics and error texts. A login that
 * looks like a card number is written only if the configuration names it: as a value of an endpoint map, or
 * exactly in a grant. This is the only place with that rule; every log line and every metric passes through it.
 */
export class LoginRedactor {
  readonly #configured: Set<string>;

  constructor(configured: Iterable<string>) {
    this.#configured = new Set(configured);
  }

  /** Adds the logins of a configuration that was read again; in-flight requests may still carry earlier ones. */
  allow(configured: Iterable<string>): void {
    for (const login of configured) this.#configured.add(login);
  }

  /** The text with each word that looks like a card number replaced. A word is what can be a login. */
  readonly text = (text: string): string =>
    holdsCardNumber(text)
      ? text.replace(/[\w.~@-]+/g, (word) => (this.#mayBeWritten(word) ? word : redactedLogin))
      : text;

  log(log: Logger): Logger {
    return {
      ...log,
      requestFinished: (exchange) => log.requestFinished(this.#exchange(exchange)),
      message: (level, message, fields = {}) => log.message(level, this.text(message), this.#fields(fields)),
      ...this.#debug(log),
    };
  }

  /** Every text of a debug line passes through here, whatever its field. */
  #debug({ debug }: Logger): Pick<Logger, 'debug'> {
    if (debug === undefined) return {};
    const redacted = (fields: DebugFields): DebugFields =>
      Object.fromEntries(
        Object.entries(fields).map(([name, value]) => [
          name,
          typeof value === 'string' ? this.text(value) : value,
        ]),
      );
    return { debug: (message, fields) => debug(this.text(message), redacted(fields)) };
  }

  /** Without the series of the keys of a redacted login: those of all such logins would be one series. */
  meter<M extends MetricsObserver>(meter: M): M {
    return {
      ...meter,
      requestFinished: (exchange) => meter.requestFinished(this.#exchange(exchange)),
      keyRingUpdated: (address, ring, removal) => {
        if (this.#mayBeWritten(address.login)) meter.keyRingUpdated(address, ring, removal);
      },
      keyFallback: (address, kind, to) => {
        if (this.#mayBeWritten(address.login)) meter.keyFallback(address, kind, to);
      },
    };
  }

  #exchange(exchange: RequestContext): RequestContext {
    const { login } = exchange;
    return login === undefined || this.#mayBeWritten(login)
      ? exchange
      : { ...exchange, login: redactedLogin };
  }

  #fields(fields: LogFields): LogFields {
    const { login } = fields;
    return typeof login === 'string' ? { ...fields, login: this.text(login) } : fields;
  }

  #mayBeWritten(login: string): boolean {
    return !holdsCardNumber(login) || this.#configured.has(login);
  }
}

const fewestDigits = 13;
const mostDigits = 19;
const zero = 0x30;

/**
 * Whether a run of digits passes for a card number (ISO/IEC 7812-1): 13 to 19 digits, the last of them the
 * Luhn check digit, also in groups with the separators that a login can hold.
 */
export function holdsCardNumber(text: string): boolean {
  for (const [run] of text.matchAll(/\d(?:[._~@-]*\d){12,}/g)) {
    const groups = run.split(/\D+/);
    if (groups.some((_, first) => isCardNumberFrom(first, groups))) return true;
  }
  return false;
}

/**
 * Whether this group, or it and some that follow, is a card number. Looks at 19 digits at most, each of them once:
 * texts with whole targets of requests pass through here.
 *
 * Luhn: from the right, every second digit counts double, its digits added; the sum is a multiple of ten.
 */
function isCardNumberFrom(first: number, groups: readonly string[]): boolean {
  let digits = 0;
  // The sum where the last digit so far counts once, and the one where it counts double.
  let [once, twice] = [0, 0];
  for (let index = first; index < groups.length; index += 1) {
    const group = groups[index] ?? '';
    digits += group.length;
    if (digits > mostDigits) return false;
    for (let at = 0; at < group.length; at += 1) {
      const digit = group.charCodeAt(at) - zero;
      [once, twice] = [twice + digit, once + digit * 2 - (digit > 4 ? 9 : 0)];
    }
    if (digits >= fewestDigits && once % 10 === 0) return true;
  }
  return false;
}
