import { type ParseArgsOptionDescriptor, type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { didYouMean } from '../../config/problem.ts';
import { errorCode } from '../../util/error-code.ts';
import { wholeNumberIn } from '../../util/text.ts';
import { CliError, messageOf } from './cli-error.ts';
import { exitCode, type Io, wrapWords } from './io.ts';

/** Completes a sentence that begins with the name of an option or a variable. */
export const portRule = 'must be a port from 0 to 65535; 0 picks a free one';

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
 * @param maxPositionals number of arguments without an option name that the command accepts
 * @returns the values, or the exit code of a command that has nothing more to do
 */
export function parseOptions<T extends OptionTable>(
  command: string,
  argv: readonly string[],
  options: T,
  usage: string,
  io: Io,
  maxPositionals = 0,
): { values: OptionValues<T>; positionals: readonly string[] } | { exit: number } {
  try {
    const { values, positionals } = parseArgs<{
      args: string[];
      options: T & typeof help;
      allowPositionals: true;
    }>({
      args: [...argv],
      options: { ...options, ...help },
      allowPositionals: true,
    });
    if (!('help' in values) && positionals.length > maxPositionals)
      // Not repeated: it may be a key.
      throw new Error('unexpected positional argument');
    if (!('help' in values)) return { values, positionals };
    io.out(usage);
    return { exit: exitCode.done };
  } catch (error) {
    io.err(
      `countersign ${command}: ${describeParseError(error, Object.keys(options))}\nSee: countersign ${command} --help`,
    );
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

function describeParseError(error: unknown, known: readonly string[]): string {
  const unknown = /Unknown option '(-[\w-]*)/.exec(messageOf(error))?.[1];
  if (errorCode(error) !== 'ERR_PARSE_ARGS_UNKNOWN_OPTION' || unknown === undefined) return messageOf(error);
  return `unknown option ${unknown}${didYouMean(
    unknown,
    known.map((name) => `--${name}`),
  )}`;
}

/** @param rule completes a sentence that begins with the name of the option. @throws CliError for another value */
export function numberFrom(
  option: string,
  text: string,
  min: number,
  max: number,
  rule = `must be a whole number from ${min} to ${max}`,
): number {
  const number = wholeNumberIn(text, min, max);
  if (number === undefined) throw new CliError(`${option} ${rule}`, exitCode.usage);
  return number;
}

export function parsePort(text: string): number | undefined {
  return wholeNumberIn(text, 0, 65_535);
}

/** @throws CliError that names the option */
export function portFrom(option: string, text: string): number {
  return numberFrom(option, text, 0, 65_535, portRule);
}
