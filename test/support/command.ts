/** The options of a command line, and its help text, which begins with `Usage: npm run NAME`. */
interface Command<Options> {
  /** @throws TypeError for wrong options */
  readonly readOptions: (args: string[]) => Options | 'help';
  readonly usage: string;
}

/** Runs a program with its options; prints the help, or what is wrong with the options (exit code 2). */
export async function runCommand<Options>(
  { readOptions, usage }: Command<Options>,
  run: (options: Options) => Promise<void>,
): Promise<void> {
  let options: Options | 'help';
  try {
    options = readOptions(process.argv.slice(2));
  } catch (error) {
    // Every other error is a bug of the program.
    if (!(error instanceof TypeError)) throw error;
    const [command] = /npm run \S+/.exec(usage) ?? [];
    console.error(`${error.message}\nRun "${command} -- --help" for the options.`);
    process.exitCode = 2;
    return;
  }
  if (options === 'help') console.log(usage);
  else await run(options);
}

/** @throws TypeError for a value that is not a positive integer */
export function positiveInteger(name: string, text: string): number {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : 0;
  if (number >= 1) return number;
  throw new TypeError(`--${name} must be a whole number from 1, not ${JSON.stringify(text)}`);
}
