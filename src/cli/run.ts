import { packageVersion } from '../service/package-info.ts';
import type { Signals } from '../service/signals.ts';
import { unsafeSettings } from '../service/start-checks.ts';
import { didYouMean } from '../util/text.ts';
import { exitCode } from './shared/cli-error.ts';
import type { Io, Run } from './shared/command.ts';

/** With a summary. The modules of a command are loaded when it runs: the proxy needs none of the others. */
const commands: readonly (readonly [name: string, summary: string, load: () => Promise<Run>])[] = [
  ['serve', 'Run the proxy', async () => (await import('./serve-or-demo.ts')).serveOrDemo],
  [
    'demo',
    'Run the proxy with a gateway simulator, for tests',
    async () => (await import('./demo/demo.ts')).demo,
  ],
  ['simulate', 'Run the gateway simulator alone', async () => (await import('./simulate.ts')).simulate],
  [
    'status',
    'Show the status of a running instance',
    async () => (await import('./status/status.ts')).status,
  ],
  ['check', 'Validate a configuration file', async () => (await import('./check/check.ts')).check],
  ['explain', 'Explain how a form is signed', async () => (await import('./explain/explain.ts')).explain],
  ['keys', 'Manage keys in Vault', async () => (await import('./keys/keys.ts')).keys],
  ['audit', 'Verify an audit trail', async () => (await import('./audit-verify.ts')).audit],
  ['callers', 'Create a bearer token for a caller', async () => (await import('./callers.ts')).callers],
];

const usage = `Usage: countersign COMMAND [options]

Commands:
${commands.map(([name, summary]) => `  ${name.padEnd(10)}${summary}`).join('\n')}

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
  if (name === '--version' || name === '--help') {
    io.out(name === '--version' ? packageVersion() : usage);
    return exitCode.done;
  }
  const [, , load] = commands.find(([known]) => known === name) ?? [];
  const names = [...commands.map(([known]) => known), '--help', '--version'];
  const problems =
    load === undefined
      ? [`countersign: unknown command "${name}"${didYouMean(name, names)}\n\n${usage}`]
      : unsafeSettings();
  for (const problem of problems) io.err(problem);
  if (load === undefined || problems.length > 0) return exitCode.usage;
  const runCommand = await load();
  return runCommand(argv, io, signals);
}
