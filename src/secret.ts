import { hash, timingSafeEqual } from 'node:crypto';
import { inspect } from 'node:util';

const redacted = '[secret]';

/** Set by the class below, so that only this module can read the private field. */
let textOf: (secret: Secret) => string;

/**
 * A text that must never be printed or logged: control key, passphrase, Vault token.
 *
 * Hidden from `String`, template literals, `JSON.stringify` and `util.inspect`. {@link reveal} is the only way to
 * the text; a test in test/repo lists the modules that may import it.
 */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return redacted;
  }

  toJSON(): string {
    return redacted;
  }

  [inspect.custom](): string {
    return redacted;
  }

  static {
    textOf = (secret) => secret.#text;
  }
}

/** The text of a secret. The calling module is responsible for where it goes. */
export function reveal(secret: Secret): string {
  return textOf(secret);
}

/** Compares two secrets in constant time. */
export function sameSecret(a: Secret, b: Secret): boolean {
  return timingSafeEqual(digest(textOf(a)), digest(textOf(b)));
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}
