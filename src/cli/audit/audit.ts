import { unknownCommand } from '../shared/cli-error.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { verifyAudit } from './verify.ts';

const usage = `Usage: countersign audit SUBCOMMAND [options]

Subcommands:
  verify    Verify that an audit trail is complete and unchanged

Run "countersign audit SUBCOMMAND --help" for details.

Options:
  --help  Show this help

Exit codes: 0 ok, 1 the trail is altered, or a failure, 2 invalid usage.`;

/** Checks audit trails, for auditors. @returns the exit code */
export async function audit([name = '--help', ...argv]: readonly string[], io: Io): Promise<number> {
  if (name === '--help') {
    io.out(usage);
    return exitCode.done;
  }
  if (name === 'verify') return verifyAudit(argv, io);
  io.err(
    `countersign audit: ${unknownCommand(name, ['verify'], 'subcommand')}\nSee: countersign audit --help`,
  );
  return exitCode.usage;
}
