import { type ParseArgsOptionDescriptor, type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { errorCode } from '../../util/error-code.ts';
import { exitCode, type Io } from './io.ts';
import { wrapWords } from './table.ts';

/** The options of a command: what `parseArgs` accepts, and what the help shows. */
export type OptionTable = Readonly<
  Record<
    string,
    ParseArgsOptionDescriptor & {
      /** Placeholder of the value in the help, such as `FILE`. */
      readonly value?: string;
      readonly description: string;
    }
  >
>;

/** Every command has `--help`. */
const help = { help: { type: 'boolean', description: 'Show this help' } } as const;

export type OptionValues<T extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<{ args: string[]; options: T & typeof help }>
>['values'];

/**
 * Parses the options of a command. Prints `usage` for `--help`, and a hint for unknown options.
 *
 * @returns the values, or the exit code of a command that has nothing more to do
 */
export function parseOptions<T extends OptionTable>(
  command: string,
  argv: readonly string[],
  options: T,
  usage: string,
  io: Io,
): { values: OptionValues<T> } | { exit: number } {
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

/** Characters in a line of the help. */
const lineLength = 110;

/** The `Options:` block of a usage text, with one column for all options. */
export function optionsHelp(options: OptionTable): string {
  const rows = Object.entries<OptionTable[string]>({ ...options, ...help }).map(([name, option]) => ({
    flag: `  --${name}${option.value === undefined ? '' : ` ${option.value}`}  `,
    text: `${option.description}${typeof option.default === 'string' ? ` (default: ${option.default})` : ''}`,
  }));
  const width = Math.max(...rows.map(({ flag }) => flag.length));
  const lines = rows.flatMap(({ flag, text }) => {
    const [first = '', ...more] = wrapWords(text, lineLength - width);
    return [`${flag.padEnd(width)}${first}`, ...more.map((line) => `${' '.repeat(width)}${line}`)];
  });
  return ['Options:', ...lines].join('\n');
}

/** Does not repeat a positional argument: it may be a key. */
function describeParseError(error: unknown): string {
  const positional = errorCode(error) === 'ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL';
  return positional ? 'unexpected positional argument' : messageOf(error);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
