import { failCommand, operatorMessage, unknownCommand } from './cli-error.ts';
import { exitCode, type Io } from './io.ts';

type Subcommand = (argv: readonly string[], io: Io) => Promise<number> | number;

/**
 * Runs the subcommand that the first argument names. Without arguments prints `usage`.
 *
 * @param describe what is printed of an error
 * @returns the exit code
 */
export async function runSubcommand(
  command: string,
  subcommands: ReadonlyMap<string, Subcommand>,
  usage: string,
  [name = '--help', ...argv]: readonly string[],
  io: Io,
  describe: (error: unknown) => string = operatorMessage,
): Promise<number> {
  if (name === '--help') {
    io.out(usage);
    return exitCode.done;
  }
  const subcommand = subcommands.get(name);
  if (subcommand === undefined) {
    const message = unknownCommand(name, subcommands.keys(), 'subcommand');
    io.err(`countersign ${command}: ${message}\nSee: countersign ${command} --help`);
    return exitCode.usage;
  }
  try {
    return await subcommand(argv, io);
  } catch (error) {
    return failCommand(`${command} ${name}`, error, io, describe(error));
  }
}
