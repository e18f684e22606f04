import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { exitCode, type Io } from './io.ts';

/** Every command knows `--help`. */
const help = { help: { type: 'boolean' } } as const;

type Values<T extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<{ args: string[]; options: T & typeof help }>
>['values'];

/**
 * Reads the options of a command, or answers on its behalf: `--help` with `usage`, unknown options with a
 * hint.
 *
 * @returns the values, or the exit code of a command that has nothing more to do
 */
export function parseOptions<T extends ParseArgsOptionsConfig>(
  command: string,
  argv: readonly string[],
  options: T,
  usage: string,
  io: Io,
): { values: Values<T> } | { exit: number } {
  try {
    const { values } = parseArgs<{ args: string[]; options: T & typeof help }>({
      args: [...argv],
      options: { ...options, ...help },
    });
    if (!('help' in values)) return { values };
    io.out(usage);
    return { exit: exitCode.done };
  } catch (error) {
    io.err(`countersign ${command}: ${describeParseError(error)}\nSee: countersign ${command} --help`);
    return { exit: exitCode.usage };
  }
}

/** An argument without an option before it is not repeated: it may be a key that does not belong here. */
function describeParseError(error: unknown): string {
  const positional = codeOf(error) === 'ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL';
  return positional ? 'there is an argument that is no option' : messageOf(error);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Such as `ECONNREFUSED`, of an error of Node's. */
export function codeOf(error: unknown): string {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : 'no code';
}
