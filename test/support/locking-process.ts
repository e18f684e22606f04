import { lockFile } from '../../src/audit/file.ts';

/** Locks each file that the parent names, at the same time as others: at this time in milliseconds since 1970. */
export interface LockOrder {
  readonly file: string;
  readonly at: number;
}

/** `locked`, or the message of the error. */
export type LockResult = string;

process.on('message', ({ file, at }: LockOrder) => {
  // A timer would fire up to a millisecond late, longer than taking the lock lasts.
  while (Date.now() < at);
  lockFile(file).then(
    () => process.send?.('locked'),
    (error: unknown) => process.send?.(error instanceof Error ? error.message : 'no error'),
  );
});
