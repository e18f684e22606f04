import { ProxyError } from '../../errors.ts';
import { exitCode } from './io.ts';
import { messageOf } from './parse-options.ts';

/** Ends a command: what to tell the person, and the exit code. Holds no secret. */
export class CliError extends Error {
  override readonly name = 'Stop';
  readonly exit: number;

  constructor(message: string, exit: number = exitCode.failed) {
    super(message);
    this.exit = exit;
  }
}

/** What to tell a person about an error. An operator sees the cause, which a caller does not. */
export function operatorMessage(error: unknown): string {
  if (!(error instanceof ProxyError)) return messageOf(error);
  return error.cause instanceof Error ? error.cause.message : error.detail;
}
