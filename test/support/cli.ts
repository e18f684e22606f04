import { Readable } from 'node:stream';
import { run as runCommand } from '../../src/cli/run.ts';
import type { Run } from '../../src/cli/shared/command.ts';
import { catchSignals } from '../../src/service/signals.ts';

export interface CommandResult {
  /** Exit code. */
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** Runs a command of the command line in this process. */
export async function runCommandHere(command: Run, ...argv: readonly string[]): Promise<CommandResult> {
  const [out, err]: [string[], string[]] = [[], []];
  const io = { out: (line: string) => void out.push(line), err: (line: string) => void err.push(line) };
  const code = await command(argv, io, catchSignals(false));
  return { code, out: out.join('\n'), err: err.join('\n') };
}

/** Runs a command line in this process. @param input standard input; without it, none that ends */
export async function run(argv: readonly string[], input?: string): Promise<CommandResult> {
  const { stdin } = process;
  const use = (value: unknown) => Object.defineProperty(process, 'stdin', { value, configurable: true });
  if (input !== undefined) use(Readable.from([Buffer.from(input)]));
  try {
    return await runCommandHere(runCommand, ...argv);
  } finally {
    use(stdin);
  }
}
