export interface WriteResult {
  /** Bytes that were written. If they end within a line, the rest of that line has to be written next. */
  readonly written: number;
  /** Of these, bytes that are as durable as configured. */
  readonly confirmed: number;
  /** Why not everything is written and durable: an error code. */
  readonly error?: string;
}

/** Where the lines of an audit trail go. Only one call at a time. */
export interface AuditOutput {
  write(lines: Buffer): Promise<WriteResult>;
  /** To be called before a write. @returns whether the next line is the first of another file @throws Error of node:fs */
  refresh(): Promise<boolean>;
  close(): Promise<void>;
}
