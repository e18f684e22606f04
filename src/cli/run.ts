import type { Signals } from '../server/signals.ts';
import { unsafeSettings } from '../server/unsafe-settings.ts';
import { packageVersion } from '../util/package-info.ts';
import { check } from './check/check.ts';
import { explain } from './explain/explain.ts';
import { keys } from './keys/keys.ts';
import { serve } from './serve.ts';
import { exitCode, type Io } from './shared/io.ts';
import { simulate } from './simulate.ts';

type Command = (argv: readonly string[], io: Io, signals: Signals) => Promise<number>;

const commands = new Map<string, { readonly run: Command; readonly about: string }>([
  ['serve', { run: serve, about: 'run the proxy' }],
  ['simulate', { run: simulate, about: 'run the gateway simulator alone' }],
  ['check', { run: check, about: 'say everything that is wrong with a configuration' }],
  ['explain', { run: explain, about: 'show step by step how a form is signed' }],
  ['keys', { run: keys, about: 'list, make, import, verify and roll back keys in Vault' }],
]);

const usage = [
  'Usage: countersign COMMAND [options]',
  '',
  ...[...commands].map(([name, { about }]) => `  ${name.padEnd(10)}${about}`),
  '',
  'countersign COMMAND --help tells more. countersign --version prints the version.',
].join('\n');

/** Gives the exit code. */
export async function run(
  name = '--help',
  argv: readonly string[],
  io: Io,
  signals: Signals,
): Promise<number> {
  if (name === '--version') return printAndExit(packageVersion(), io);
  if (name === '--help') return printAndExit(usage, io);
  const command = commands.get(name);
  if (command === undefined) return usageError([`There is no command "${name}".\n\n${usage}`], io);
  const unsafe = unsafeSettings();
  return unsafe.length === 0 ? command.run(argv, io, signals) : usageError(unsafe, io);
}

function usageError(problems: readonly string[], io: Io): number {
  for (const problem of problems) io.err(problem);
  return exitCode.usage;
}

function printAndExit(text: string, io: Io): number {
  io.out(text);
  return exitCode.done;
}
