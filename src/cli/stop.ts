import { Refusal } from '../errors.ts';
import { exitCode } from './io.ts';
import { messageOf } from './options.ts';

/** Ends a command: what to tell the person, and the exit code. Holds no secret. */
export class Stop extends Error {
  override readonly name = 'Stop';
  readonly exit: number;

  constructor(message: string, exit: number = exitCode.failed) {
    super(message);
    this.exit = exit;
  }
}

/** What to tell a person about an error. An operator sees the cause, which a caller does not. */
export function explained(error: unknown): string {
  if (!(error instanceof Refusal)) return messageOf(error);
  return error.cause instanceof Error ? error.cause.message : error.detail;
}
