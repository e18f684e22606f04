/** Where a command prints, line by line: results to `out`, everything else to `err`. */
export interface Io {
  readonly out: (line: string) => void;
  readonly err: (line: string) => void;
}

/** Exit codes of every command. */
export const exitCode = { done: 0, failed: 1, usage: 2 } as const;
