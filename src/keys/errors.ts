import { overloaded, ProxyError } from '../errors.ts';
import type { LoginRef } from './login-ref.ts';

/** Seconds: long enough for a source to recover, short enough for a caller to wait. */
const retryAfter = 5;

/**
 * What a failed read says about the source: `up` if it responded, though without this login's keys; `denied` if it
 * responded that they may not be read; `down` if it is unavailable; `unknown` if no request was sent.
 */
export type SourceState = 'up' | 'denied' | 'down' | 'unknown';

export class SourceUnavailable extends ProxyError {
  readonly source: SourceState;
  /** For the log. */
  readonly problem: string;

  /**
   * @param cause must contain no request, token or key
   * @param problem for the log; the message of the cause unless given
   */
  constructor(
    { environment, login }: LoginRef,
    cause: unknown,
    source: SourceState,
    problem = cause instanceof Error ? cause.message : 'unknown',
  ) {
    super(
      'key-source-unavailable',
      `The keys of login "${login}" in environment "${environment}" are temporarily unavailable. Retry later.`,
      { cause, retryAfter },
    );
    this.source = source;
    this.problem = problem;
  }
}

/** Vault did not make a signature with a key that does not leave it. Nothing was sent. @param cause as above */
export function signingUnavailable({ environment, login }: LoginRef, cause: unknown): ProxyError {
  return new ProxyError(
    'signing-unavailable',
    `Vault, which has the private key of login "${login}" in environment "${environment}", did not sign. Nothing was sent. Retry later.`,
    { cause, retryAfter },
  );
}

/** @param problem a clause that names the key and what is wrong with it, without any of its content */
export function keyNotUsable({ environment, login }: LoginRef, problem: string, cause?: unknown): ProxyError {
  const detail = `${problem}, for login "${login}" in environment "${environment}". Ask the platform team to store a usable key.`;
  return new ProxyError('key-unusable', detail, { cause });
}

export function tooManyWaiting({ environment, login }: LoginRef): ProxyError {
  return overloaded(
    'key reads',
    `Too many requests wait for the keys of login "${login}" in environment "${environment}". Retry later.`,
  );
}

/** The error of a failed read. The message of an unexpected one may hold a secret, so only its name is kept. */
export function failedRead(error: unknown, login: LoginRef): SourceUnavailable {
  if (error instanceof SourceUnavailable) return error;
  const name = error instanceof Error ? error.name : typeof error;
  return new SourceUnavailable(login, new Error(`unexpected error in the key source: ${name}`), 'down');
}
