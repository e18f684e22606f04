import { parseArgs } from 'node:util';
import { fromEnvironment } from '../../config/variables.ts';
import { errorCode } from '../../errors.ts';
import type { Signals } from '../../service/signals.ts';
import { didYouMean, wholeNumberIn } from '../../util/text.ts';
import { CliError, exitCode, messageOf, operatorMessage } from './cli-error.ts';
import { columns, wrapWords } from './table.ts';

/** Where a command prints, line by line: results to `out`, everything else to `err`. */
export interface Io {
  readonly out: (line: string) => void;
  readonly err: (line: string) => void;
}

/** Runs a command line, without its first word. @returns the exit code */
export type Run = (argv: readonly string[], io: Io, signals: Signals) => Promise<number>;

/** What the text of an option means. @throws CliError that names the option */
type Parser<T> = (text: string, option: string) => T;

interface Option<T, Fallback = string | undefined> {
  readonly description: string;
  /** The text of an option that is not given; the help shows it. */
  readonly fallback?: Fallback;
  /** The environment variable that is used if the option is not given. An empty one counts as not set. */
  readonly variable?: string;
  readonly isList?: boolean;
  readonly parse: Parser<T>;
}

/**
 * The options of a command. A key is what the help shows: name and placeholder, such as `config FILE`, or the name of
 * a flag. Where the text needs no parser, the description is enough.
 */
type OptionTable = Readonly<Record<string, string | Option<unknown>>>;

type ValueOf<Key, O> = O extends string
  ? Key extends `${string} ${string}`
    ? string | undefined
    : boolean
  : O extends { readonly isList: true; readonly parse: Parser<infer T> }
    ? readonly T[]
    : O extends Option<infer T, infer Fallback>
      ? T | Extract<Fallback, undefined>
      : never;

export type OptionValues<T> = {
  readonly [Key in keyof T as Key extends `${infer Name} ${string}` ? Name : Key]: ValueOf<Key, T[Key]>;
};

/** Without a fallback, `undefined` if the option is not given. */
export function parsed<T, Fallback extends string | undefined>(
  description: string,
  parse: Parser<T>,
  fallback?: Fallback,
): Option<T, Fallback> {
  return { description, parse, ...(fallback === undefined ? {} : { fallback }) };
}

/** An option in place of an environment variable. */
export function fromVariable<T>(variable: string, description: string, parse: Parser<T>): Option<T> {
  return { description, parse, variable };
}

/** An option that may be repeated. */
export function list<T>(description: string, parse: Parser<T>) {
  return { description, isList: true, parse } as const;
}

/** @param rule completes a sentence that begins with the name of the option */
export function wholeNumber(
  min: number,
  max: number,
  rule = `must be a whole number from ${min} to ${max}`,
): Parser<number> {
  return (text, option) => {
    const number = wholeNumberIn(text, min, max);
    if (number === undefined) throw new CliError(`${option} ${rule}`, exitCode.usage);
    return number;
  };
}

export const port = wholeNumber(0, 65_535, 'must be a port from 0 to 65535; 0 picks a free one');

export function oneOf<const T extends string>(
  known: readonly T[],
  rule = `must be ${known.join(' or ')}`,
): Parser<T> {
  return (text, option) => {
    const found = known.find((one) => one === text);
    if (found === undefined) throw new CliError(`${option} ${rule}`, exitCode.usage);
    return found;
  };
}

/** Every command has it. */
const help = { help: 'Show this help' };

function rowsOf(options: OptionTable) {
  return Object.entries(options).map(([key, given]) => {
    const [name = '', value] = key.split(' ');
    const option: Option<unknown> = typeof given === 'string' ? { description: given, parse: String } : given;
    return { name, value, ...option };
  });
}

export function optionNames(options: OptionTable): string[] {
  return rowsOf(options).map(({ name }) => name);
}

interface Spec<T> {
  /** Such as `keys list`. */
  readonly name: string;
  /** What follows the name, in a line for each way to call it. */
  readonly usage: string;
  /** A paragraph. */
  readonly about: string;
  readonly options: T;
  readonly exitCodes?: string;
  /** Number of arguments without an option name that the command accepts. */
  readonly maxPositionals?: number;
  /** What is printed of an error. */
  readonly describe?: (error: unknown) => string;
}

/**
 * A command: parses its options, and prints the help for `--help`. The one place that turns an error into an exit code.
 *
 * @param run returns the exit code
 */
export function command<T extends OptionTable>(
  spec: Spec<T>,
  run: (
    given: { readonly values: OptionValues<T>; readonly positionals: readonly string[] },
    io: Io,
    signals: Signals,
  ) => Promise<number> | number,
): Run {
  const { name, options, describe = operatorMessage } = spec;
  return async (argv, io, signals) => {
    let parsed: ReturnType<typeof parse>;
    try {
      parsed = parse(argv, spec);
    } catch (error) {
      io.err(`countersign ${name}: ${describeParseError(error, options)}${seeHelp(name)}`);
      return exitCode.usage;
    }
    try {
      if (parsed !== undefined) {
        const { values, positionals } = parsed;
        return await run({ values: valuesOf(options, values), positionals }, io, signals);
      }
      io.out(helpOf(spec));
      return exitCode.done;
    } catch (error) {
      const exit = error instanceof CliError ? error.exit : exitCode.failed;
      const hint = exit === exitCode.usage ? seeHelp(name) : '';
      const isPlain = error instanceof CliError && error.isPlain;
      io.err(isPlain ? error.message : `countersign ${name}: ${describe(error)}${hint}`);
      return exit;
    }
  };
}

/** `undefined` for `--help`. */
function parse(argv: readonly string[], { options, usage, maxPositionals = 0 }: Spec<OptionTable>) {
  const { values, positionals } = parseArgs({
    args: [...argv],
    options: Object.fromEntries(
      rowsOf({ ...options, ...help }).map(({ name, value, isList: multiple = false }) => [
        name,
        { type: value === undefined ? 'boolean' : 'string', multiple } as const,
      ]),
    ),
    allowPositionals: true,
  });
  if (values['help'] === true) return undefined;
  const extra = positionals[maxPositionals];
  if (extra !== undefined) {
    const flags = optionNames(options).map((name) => `--${name}`);
    const hint = didYouMean(extra, usage.match(/^[a-z]+/gm) ?? []) || didYouMean(`--${extra}`, flags);
    // Not repeated: it may be a key.
    throw new Error(`unexpected positional argument${hint}`);
  }
  return { values, positionals };
}

type ParsedTexts = NonNullable<ReturnType<typeof parse>>['values'];

/** @throws CliError for an invalid value of an option or environment variable */
function valuesOf<T extends OptionTable>(options: T, given: ParsedTexts): OptionValues<T>;
function valuesOf(options: OptionTable, given: ParsedTexts): object {
  const valueOf = (row: ReturnType<typeof rowsOf>[number]): unknown => {
    const { name, value, variable = '', fallback, isList, parse } = row;
    if (value === undefined) return given[name] === true;
    const texts = [given[name] ?? []].flat().map(String);
    if (isList) return texts.map((text) => parse(text, `--${name}`));
    const set = fromEnvironment(variable) ?? '';
    if (texts[0] === undefined && set !== '') return parse(set, variable);
    const text = texts[0] ?? fallback;
    return text === undefined ? undefined : parse(text, `--${name}`);
  };
  return Object.fromEntries(rowsOf(options).map((row) => [row.name, valueOf(row)]));
}

/** Characters in a line of the help. */
const lineLength = 110;

function helpOf({ name, usage, about, options, exitCodes }: Spec<OptionTable>): string {
  const calls = usage.replaceAll(/^/gm, `       countersign ${name} `).trim();
  const exits = `Exit codes: ${exitCodes ?? '0 ok, 1 failure, 2 invalid configuration or usage'}.`;
  const rows = rowsOf({ ...options, ...help }).map(({ name, value, description, fallback }) => [
    `  --${name}${value === undefined ? '' : ` ${value}`}`,
    `${description}${fallback === undefined ? '' : ` (default: ${fallback})`}`,
  ]);
  const block = (text: string): string => wrapWords(text, lineLength).join('\n');
  const optionBlock = ['Options:', ...columns(rows, lineLength)].join('\n');
  return [`Usage: ${calls}`, block(about), optionBlock, block(exits)].join('\n\n');
}

function describeParseError(error: unknown, options: OptionTable): string {
  const unknown = /Unknown option '(-[\w-]*)/.exec(messageOf(error))?.[1];
  if (errorCode(error) !== 'ERR_PARSE_ARGS_UNKNOWN_OPTION' || unknown === undefined) return messageOf(error);
  const known = optionNames(options).map((name) => `--${name}`);
  return `unknown option ${unknown}${didYouMean(unknown, known)}`;
}

/** A command of a group, which is loaded when it runs: the proxy needs none of the others. */
type Entry = readonly [name: string, summary: string, load: () => Promise<Run>];

/**
 * A command that its first argument names. Without arguments prints the help.
 *
 * @param name empty for all commands
 */
export function group(name: string, entries: readonly Entry[]): Run {
  const [full, noun] = name === '' ? ['countersign', 'command'] : [`countersign ${name}`, 'subcommand'];
  return async ([first = '--help', ...argv], io, signals) => {
    const [, , load] = entries.find(([known]) => known === first) ?? [];
    if (load !== undefined) return (await load())(argv, io, signals);
    if (first === '--help') {
      const rows = [...entries, ['--help', help.help]].map(([known = '', summary = '']) => [
        `  ${known}`,
        summary,
      ]);
      const call = `${full} ${noun.toUpperCase()}`;
      const details = `Run "${call} --help" for details.`;
      io.out([`Usage: ${call} [options]`, '', ...columns(rows, lineLength), '', details].join('\n'));
      return exitCode.done;
    }
    const hint = didYouMean(first, [...entries.map(([known]) => known), '--help']);
    io.err(`${full}: unknown ${noun} "${first}"${hint}\nSee: ${full} --help`);
    return exitCode.usage;
  };
}

function seeHelp(name: string): string {
  return `\nSee: countersign ${name} --help`;
}
