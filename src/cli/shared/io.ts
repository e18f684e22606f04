/** Where a command prints: results to `out`, everything else to `err`, line by line. */
export interface Io {
  readonly out: (line: string) => void;
  readonly err: (line: string) => void;
}

/** Exit codes of every command. */
export const exitCode = { done: 0, failed: 1, usage: 2 } as const;
