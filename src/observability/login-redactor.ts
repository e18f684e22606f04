import { KeyObject } from 'node:crypto';
import { holdsCardNumber, redactedNumber } from '../redact-card-data.ts';
import { Secret } from '../secret.ts';

/** Written in place of a login that looks like a card number. */
export const redactedLogin = redactedNumber;

/** Made by Countersign, or checked when it came in: random and hashed digits may look like a card number by chance. */
const ownFields: ReadonlySet<string> = new Set(['id', 'requestId', 'traceId', 'mac', 'fingerprint']);

/**
 * Events that come with each request and need no redaction: they have configured names, closed values and numbers only.
 * The context of a request is made of texts that were redacted when it was made; see proxy/handler.ts.
 */
const withoutData: ReadonlySet<string> = new Set([
  'authorizationDecided',
  'gatewayResponded',
  'keyLookup',
  'requestFinished',
  'signed',
]);

type Redact = (text: string) => string;

/**
 * Keeps card numbers that callers send as a login out of the log, the metrics and error texts. A login that
 * looks like a card number is written only if the configuration contains it: as a value of an endpoint map, or
 * exactly in a grant. Only this class has that rule. A request's context is redacted when it is made, and every other
 * event on its way to those who observe it.
 */
export class LoginRedactor {
  readonly #configured: Set<string>;

  constructor(configured: Iterable<string>) {
    this.#configured = new Set(configured);
  }

  /** Adds the logins of a reloaded configuration; in-flight requests may still have earlier ones. */
  allow(configured: Iterable<string>): void {
    for (const login of configured) this.#configured.add(login);
  }

  /** Replaces each word that looks like a card number. A word consists of the characters of a login. */
  readonly text: Redact = (text) =>
    holdsCardNumber(text)
      ? text.replace(/[\w.~@-]+/g, (word) =>
          holdsCardNumber(word) && !this.#configured.has(word) ? redactedLogin : word,
        )
      : text;

  /** The same for what names a client in a certificate or a JWT, where digits may be in groups with spaces. */
  names<T extends object>(fields: T): T {
    const redactName = redactionOf((name) => {
      const redacted = this.text(name);
      return holdsCardNumber(redacted.replaceAll(' ', '-')) ? redactedLogin : redacted;
    });
    return redactFields(fields, redactName);
  }

  /**
   * One observer (or log) that passes each event on to all of these, with every text in it redacted, so that an event
   * that is added later cannot pass without it.
   */
  redacting<Events extends object>(first: Events, ...others: readonly Partial<Events>[]): Events {
    type Method = (...values: readonly unknown[]) => void;
    const methods = [first, ...others].flatMap((observer): [string, Method][] => Object.entries(observer));
    const redact = redactionOf(this.text);
    const events = [...Map.groupBy(methods, ([event]) => event)].map(([event, entries]): [string, Method] => {
      const observers = entries.map(([, method]) => method);
      const [only, ...further] = observers;
      const toAll: Method = (...values) => {
        for (const observe of observers) observe(...values);
      };
      const forward = only !== undefined && further.length === 0 ? only : toAll;
      return [event, withoutData.has(event) ? forward : (...values) => forward(...values.map(redact))];
    });
    return { ...first, ...Object.fromEntries(events) };
  }
}

/** Applies `redactText` to every text of a value. */
function redactionOf(redactText: Redact): (value: unknown) => unknown {
  const redact = (value: unknown): unknown => {
    if (typeof value === 'string') return redactText(value);
    if (Array.isArray(value)) return value.map(redact);
    if (typeof value !== 'object' || value === null) return value;
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype === Object.prototype || prototype === null) return redactFields(value, redact);
    // They do not show what they hold, except an error: the log writes no more than its name and stack frames.
    return [Date, KeyObject, Secret, Error].some((type) => value instanceof type) ? value : '[redacted]';
  };
  return redact;
}

/** A copy only if something was redacted, which is rare. */
function redactFields<T extends object>(fields: T, redact: (value: unknown) => unknown): T {
  let redacted = fields;
  for (const [name, value] of Object.entries(fields)) {
    const replacement = ownFields.has(name) ? value : redact(value);
    if (replacement !== value) redacted = { ...redacted, [name]: replacement };
  }
  return redacted;
}
