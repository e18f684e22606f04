import { exitCode } from './io.ts';

/** Ends a command: what to tell the person, and the exit code. Holds no secret. */
export class Stop extends Error {
  override readonly name = 'Stop';
  readonly exit: number;

  constructor(message: string, exit: number = exitCode.failed) {
    super(message);
    this.exit = exit;
  }
}
