import { createHash, timingSafeEqual } from 'node:crypto';
import { inspect } from 'node:util';

const hidden = '[secret]';

/** Set once, by the class below: nothing but {@link reveal} can reach the private field. */
let textOf: (secret: Secret) => string;

/**
 * A text that must never leave the process: control key, passphrase, Vault token.
 *
 * Hidden from `String`, template literals, `JSON.stringify` and `util.inspect`; {@link reveal} is the one
 * way to the text, and test/rules lists the modules that may import it.
 */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return hidden;
  }

  toJSON(): string {
    return hidden;
  }

  [inspect.custom](): string {
    return hidden;
  }

  static {
    textOf = (secret) => secret.#text;
  }
}

/** The text of a secret. Whoever calls this answers for where the text goes. */
export function reveal(secret: Secret): string {
  return textOf(secret);
}

/** Whether both hold the same text. Takes the same time wherever they differ. */
export function sameSecret(a: Secret, b: Secret): boolean {
  return timingSafeEqual(digest(textOf(a)), digest(textOf(b)));
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
