import { ProxyError } from '../../errors.ts';
import { exitCode } from './io.ts';
import { messageOf } from './system-error.ts';

/** Ends a command with a message for the operator and an exit code. Holds no secret. */
export class CliError extends Error {
  override readonly name = 'CliError';
  readonly exit: number;

  constructor(message: string, exit: number = exitCode.failed) {
    super(message);
    this.exit = exit;
  }
}

/** The message of an error for an operator, who sees the cause, unlike a caller. */
export function operatorMessage(error: unknown): string {
  if (!(error instanceof ProxyError)) return messageOf(error);
  return error.cause instanceof Error ? error.cause.message : error.detail;
}
