import { Refusal } from '../errors.ts';
import type { KeyAddress } from './source.ts';

/** Seconds: long enough for a source to answer again, short enough for a caller to wait. */
const pause = 5;

/** The source says for certain that the login has no key. The caller is known to be allowed to use it. */
export function missing({ environment, login }: KeyAddress): Refusal {
  return new Refusal(
    'key-missing',
    `Login "${login}" has no keys in environment "${environment}". Check the spelling of the login, or have its keys added for this environment.`,
  );
}

/** @param cause must carry no request, no token and no key. */
export function unavailable({ environment, login }: KeyAddress, cause: unknown): Refusal {
  return new Refusal(
    'key-source-unavailable',
    `The keys of login "${login}" in environment "${environment}" cannot be read now. Send the request again later.`,
    { cause, retryAfter: pause },
  );
}
