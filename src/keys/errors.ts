import { ProxyError } from '../errors.ts';
import type { LoginRef } from './key-source.ts';

/** Seconds: long enough for a source to answer again, short enough for a caller to wait. */
const pause = 5;

/**
 * What a failed read says about the source as a whole: it answered, though not with this login's keys; it could
 * not be used; nothing was asked of it.
 */
export type SourceState = 'up' | 'down' | 'not-asked';

/** A read of the key source that failed. */
export class SourceUnavailable extends ProxyError {
  readonly source: SourceState;

  /** @param cause must carry no request, no token and no key. */
  constructor({ environment, login }: LoginRef, cause: unknown, source: SourceState) {
    super(
      'key-source-unavailable',
      `The keys of login "${login}" in environment "${environment}" cannot be read now. Send the request again later.`,
      { cause, retryAfter: pause },
    );
    this.source = source;
  }
}

/** The source says for certain that the login has no key. The caller is known to be allowed to use it. */
export function keyMissing({ environment, login }: LoginRef): ProxyError {
  return new ProxyError(
    'key-missing',
    `Login "${login}" has no keys in environment "${environment}". Check the spelling of the login, or have its keys added for this environment.`,
  );
}

/** What a read that failed says about the source; an error that is no refusal says that it cannot be used. */
export function sourceStateOf(error: unknown): SourceState {
  return error instanceof SourceUnavailable ? error.source : 'down';
}

/** Why a read failed, for the log. Of an error that is no refusal only the name is safe to show. */
export function causeOf(error: unknown): string {
  const cause = error instanceof ProxyError ? error.cause : undefined;
  if (cause instanceof Error) return cause.message;
  return error instanceof ProxyError ? error.detail : `the key source threw ${nameOf(error)}`;
}

export function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}
