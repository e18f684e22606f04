/** The options of a command line, its help text, and where an error message points to. */
interface Command<Options> {
  /** @throws TypeError for wrong options */
  readonly readOptions: (args: string[]) => Options | 'help';
  readonly usage: string;
  readonly usageHint: string;
}

/** Runs a program with its options; prints the help, or what is wrong with the options (exit code 2). */
export async function runCommand<Options>(
  { readOptions, usage, usageHint }: Command<Options>,
  run: (options: Options) => Promise<void>,
): Promise<void> {
  let options: Options | 'help';
  try {
    options = readOptions(process.argv.slice(2));
  } catch (error) {
    // Every other error is a bug of the program.
    if (!(error instanceof TypeError)) throw error;
    console.error(`${error.message}\n${usageHint}`);
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
