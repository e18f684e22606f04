import { check } from './cli/check.ts';
import { explain } from './cli/explain.ts';
import { exitCode, type Io } from './cli/io.ts';
import { keys } from './cli/keys.ts';
import { packageVersion } from './cli/package-info.ts';
import { unsafeSettings } from './cli/process-guard.ts';
import { serve } from './cli/serve.ts';
import { simulate } from './cli/simulate.ts';

type Command = (argv: readonly string[], io: Io) => Promise<number>;

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

async function main([name = '--help', ...argv]: readonly string[], io: Io): Promise<number> {
  if (name === '--version') return said(packageVersion(), io);
  if (name === '--help') return said(usage, io);
  const command = commands.get(name);
  if (command === undefined) return refused([`There is no command "${name}".\n\n${usage}`], io);
  const unsafe = unsafeSettings();
  return unsafe.length === 0 ? command.run(argv, io) : refused(unsafe, io);
}

function refused(problems: readonly string[], io: Io): number {
  for (const problem of problems) io.err(problem);
  return exitCode.usage;
}

function said(text: string, io: Io): number {
  io.out(text);
  return exitCode.done;
}

process.exitCode = await main(process.argv.slice(2), {
  out: (line) => process.stdout.write(`${line}\n`),
  err: (line) => process.stderr.write(`${line}\n`),
});
