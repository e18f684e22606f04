import { packageVersion } from '../service/package-info.ts';
import { unsafeSettings } from '../service/start-checks.ts';
import { exitCode } from './shared/cli-error.ts';
import { group, type Io, type Run } from './shared/command.ts';

const commands = group('', [
  ['serve', 'Run the proxy', async () => (await import('./serve.ts')).serve],
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
  [
    'payments',
    'Query payments of unknown outcome, and show and release claimed order IDs',
    async () => (await import('./payments/payments.ts')).payments,
  ],
  ['audit', 'Verify an audit trail', async () => (await import('./audit-verify.ts')).audit],
  ['callers', 'Create a bearer token for a caller', async () => (await import('./callers.ts')).callers],
  ['--version', 'Show the version', async () => showVersion],
]);

async function showVersion(_: readonly string[], io: Io): Promise<number> {
  io.out(packageVersion());
  return exitCode.done;
}

/** Runs a command line. @returns the exit code */
export const run: Run = async (argv, io, signals) => {
  const problems = (argv[0] ?? '--help').startsWith('--') ? [] : unsafeSettings();
  for (const problem of problems) io.err(problem);
  return problems.length > 0 ? exitCode.usage : commands(argv, io, signals);
};
