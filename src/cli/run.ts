import type { Signals } from '../server/signals.ts';
import { unsafeSettings } from '../server/unsafe-settings.ts';
import { packageVersion } from '../util/package-info.ts';
import { audit } from './audit/audit.ts';
import { callers } from './callers.ts';
import { check } from './check/check.ts';
import { demoCommand } from './demo/demo.ts';
import { explain } from './explain/explain.ts';
import { keys } from './keys/keys.ts';
import { serve } from './serve.ts';
import { CliError } from './shared/cli-error.ts';
import { exitCode, type Io } from './shared/io.ts';
import { systemErrorMessage, unexpectedErrorMessage } from './shared/system-error.ts';
import { unknownCommand } from './shared/unknown-command.ts';
import { simulate } from './simulate.ts';
import { status } from './status/status.ts';

type Command = (argv: readonly string[], io: Io, signals: Signals) => Promise<number>;

const commands = new Map<string, { readonly run: Command; readonly summary: string }>([
  ['serve', { run: serve, summary: 'Run the proxy' }],
  ['demo', { run: demoCommand, summary: 'Run the proxy with a gateway simulator, for tests' }],
  ['simulate', { run: simulate, summary: 'Run the gateway simulator alone' }],
  ['status', { run: status, summary: 'Show the status of a running instance' }],
  ['check', { run: check, summary: 'Validate a configuration file' }],
  ['explain', { run: explain, summary: 'Explain how a form is signed' }],
  ['keys', { run: keys, summary: 'Manage keys in Vault' }],
  ['audit', { run: audit, summary: 'Verify an audit trail' }],
  ['callers', { run: callers, summary: 'Create a bearer token for a caller' }],
]);

const usage = `Usage: countersign COMMAND [options]

Commands:
${[...commands].map(([name, { summary }]) => `  ${name.padEnd(10)}${summary}`).join('\n')}

Options:
  --version  Show the version
  --help     Show this help

Run "countersign COMMAND --help" for details.`;

/** Runs the named command. @returns the exit code */
export async function run(
  name = '--help',
  argv: readonly string[],
  io: Io,
  signals: Signals,
): Promise<number> {
  if (name === '--version') return printAndExit(packageVersion(), io);
  if (name === '--help') return printAndExit(usage, io);
  const command = commands.get(name);
  if (command === undefined) {
    const known = [...commands.keys(), '--help', '--version'];
    return usageError([`countersign: ${unknownCommand(name, known)}\n\n${usage}`], io);
  }
  const unsafe = unsafeSettings();
  if (unsafe.length > 0) return usageError(unsafe, io);
  try {
    return await command.run(argv, io, signals);
  } catch (error) {
    const message = error instanceof CliError ? error.message : systemErrorMessage(error);
    io.err(`countersign ${name}: ${message ?? unexpectedErrorMessage(error)}`);
    return error instanceof CliError ? error.exit : exitCode.failed;
  }
}

function usageError(problems: readonly string[], io: Io): number {
  for (const problem of problems) io.err(problem);
  return exitCode.usage;
}

function printAndExit(text: string, io: Io): number {
  io.out(text);
  return exitCode.done;
}
