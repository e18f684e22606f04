import type { Io } from '../../src/cli/shared/io.ts';

export interface CommandResult {
  /** Exit code. */
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** Runs a command of the command line in this process. */
export async function runCommandHere(
  command: (argv: string[], io: Io) => Promise<number>,
  ...argv: readonly string[]
): Promise<CommandResult> {
  const [out, err]: [string[], string[]] = [[], []];
  const io = { out: (line: string) => void out.push(line), err: (line: string) => void err.push(line) };
  const code = await command([...argv], io);
  return { code, out: out.join('\n'), err: err.join('\n') };
}
