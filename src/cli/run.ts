import { check } from './check.ts';
import { explain } from './explain.ts';
import { exitCode, type Io } from './io.ts';
import { keys } from './keys.ts';
import { packageVersion } from './package-info.ts';
import { serve } from './serve.ts';
import type { Signals } from './signals.ts';
import { simulate } from './simulate.ts';
import { unsafeSettings } from './unsafe-settings.ts';

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
  if (name === '--version') return said(packageVersion(), io);
  if (name === '--help') return said(usage, io);
  const command = commands.get(name);
  if (command === undefined) return refused([`There is no command "${name}".\n\n${usage}`], io);
  const unsafe = unsafeSettings();
  return unsafe.length === 0 ? command.run(argv, io, signals) : refused(unsafe, io);
}

function refused(problems: readonly string[], io: Io): number {
  for (const problem of problems) io.err(problem);
  return exitCode.usage;
}

function said(text: string, io: Io): number {
  io.out(text);
  return exitCode.done;
}
