import type { Io } from '../shared/io.ts';
import { runSubcommand } from '../shared/subcommands.ts';
import { verifyAudit } from './verify.ts';

const usage = `Usage: countersign audit SUBCOMMAND [options]

Subcommands:
  verify    Verify that an audit trail is complete and unchanged

Run "countersign audit SUBCOMMAND --help" for details.

Options:
  --help  Show this help

Exit codes: 0 ok, 1 the trail is altered, or a failure, 2 invalid usage.`;

/** Checks audit trails, for auditors. @returns the exit code */
export function audit(argv: readonly string[], io: Io): Promise<number> {
  return runSubcommand('audit', new Map([['verify', verifyAudit]]), usage, argv, io);
}
