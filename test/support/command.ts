import { type ParseArgsConfig, parseArgs } from 'node:util';

type Options = NonNullable<ParseArgsConfig['options']>;
type Values<Of extends Options> = ReturnType<typeof parseArgs<{ options: Of }>>['values'];

/** What is wrong with the options of a command. */
class UsageError extends Error {}

/**
 * Runs a program with its options. Exit code 1 where a promise was broken, 2 for wrong options.
 *
 * @param run returns whether every promise was kept
 */
export async function runCommand<const Of extends Options>(
  usage: string,
  options: Of,
  run: (values: Values<Of>) => Promise<boolean>,
): Promise<void> {
  if (process.argv.includes('--help')) return console.log(usage);
  try {
    const { values } = parseArgs({ options });
    // Even if something still holds the event loop.
    process.exit((await run(values)) ? 0 : 1);
  } catch (error) {
    const isWrong = error instanceof UsageError || String(Object(error).code).startsWith('ERR_PARSE_ARGS');
    if (!isWrong) throw error;
    console.error(`${Object(error).message}\n\n${usage}`);
    process.exitCode = 2;
  }
}

/** @throws UsageError for a text that is not a whole number from 1 */
export function positiveInteger(name: string, text: string): number {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : 0;
  if (number >= 1) return number;
  throw new UsageError(`--${name} must be a whole number from 1, not ${JSON.stringify(text)}`);
}

/** @throws UsageError for a text that is none of these */
export function oneOf<Item extends string>(name: string, known: readonly Item[], text: string): Item {
  const found = known.find((one) => one === text);
  if (found === undefined) throw new UsageError(`--${name} must be of ${known.join(', ')}, not ${text}`);
  return found;
}

/** The items of a list with commas; all unless given. @throws UsageError for one that is none of these */
export function someOf<Item extends string>(
  name: string,
  known: readonly Item[],
  text = known.join(),
): readonly Item[] {
  return text.split(',').map((one) => oneOf(name, known, one));
}

export function increment(counts: Map<string, number>, name: string, by = 1): void {
  counts.set(name, (counts.get(name) ?? 0) + by);
}

/** Rows as a Markdown table, the first one as its head; numbers are aligned to the right. */
export function markdown(rows: readonly (readonly (string | number)[])[]): string {
  const [head = [], ...rest] = rows;
  const rule = head.map((_, at) => (at === 0 ? '---' : '--:'));
  return [head, rule, ...rest].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
