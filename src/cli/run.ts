import type { Signals } from '../server/signals.ts';
import { unsafeSettings } from '../server/unsafe-settings.ts';
import { packageVersion } from '../util/package-info.ts';
import { exitOf, unknownCommand, withheldMessage } from './shared/cli-error.ts';
import { exitCode, type Io } from './shared/io.ts';

type Command = (argv: readonly string[], io: Io, signals: Signals) => Promise<number>;

/** The modules of a command are loaded when it runs: the proxy needs none of the others. */
const commands = new Map<string, { readonly load: () => Promise<Command>; readonly summary: string }>([
  ['serve', { load: async () => (await import('./serve.ts')).serve, summary: 'Run the proxy' }],
  [
    'demo',
    {
      load: async () => (await import('./demo/demo.ts')).demoCommand,
      summary: 'Run the proxy with a gateway simulator, for tests',
    },
  ],
  [
    'simulate',
    {
      load: async () => (await import('./simulate.ts')).simulate,
      summary: 'Run the gateway simulator alone',
    },
  ],
  [
    'status',
    {
      load: async () => (await import('./status/status.ts')).status,
      summary: 'Show the status of a running instance',
    },
  ],
  [
    'check',
    { load: async () => (await import('./check/check.ts')).check, summary: 'Validate a configuration file' },
  ],
  [
    'explain',
    {
      load: async () => (await import('./explain/explain.ts')).explain,
      summary: 'Explain how a form is signed',
    },
  ],
  ['keys', { load: async () => (await import('./keys/keys.ts')).keys, summary: 'Manage keys in Vault' }],
  ['audit', { load: async () => (await import('./audit/audit.ts')).audit, summary: 'Verify an audit trail' }],
  [
    'callers',
    {
      load: async () => (await import('./callers.ts')).callers,
      summary: 'Create a bearer token for a caller',
    },
  ],
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
    const runCommand = await command.load();
    return await runCommand(argv, io, signals);
  } catch (error) {
    io.err(`countersign ${name}: ${withheldMessage(error)}`);
    return exitOf(error);
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
