import type { Head } from './chain.ts';

/** Where the lines of a trail go. Only one call at a time; none rejects. */
export interface AuditOutput {
  /** The newest record of an earlier start of the instance. */
  readonly before?: Earlier | undefined;
  write(lines: Buffer): Promise<WriteResult>;
  /** The name of a file, from 1, which is open; absent if there are no files. */
  nameOf?(number: number): string;
  /** What is written from now on belongs to this file. */
  begin?(file: string): Promise<void>;
  close(): Promise<void>;
}

export interface Earlier extends Head {
  readonly file: string;
}

export interface WriteResult {
  readonly written: number;
  /** Of these, bytes that are as durable as configured. */
  readonly confirmed: number;
  /** Why not everything is written and durable: an error code. */
  readonly error?: string;
}
