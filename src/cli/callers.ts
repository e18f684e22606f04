import { randomBytes } from 'node:crypto';
import { tokenDigest } from '../auth/bearer-token.ts';
import { callerNamePattern } from '../config/schema/caller.ts';
import { withheldMessage } from './shared/cli-error.ts';
import { exitCode, type Io } from './shared/io.ts';
import { optionsHelp, parseOptions } from './shared/parse-options.ts';
import { runSubcommand } from './shared/subcommands.ts';

const options = {
  name: {
    type: 'string',
    value: 'NAME',
    description: 'Name of a new caller: print its whole entry instead of one credential',
  },
} as const;

const usage = `Usage: countersign callers token [--name NAME]

Creates a bearer token. Prints the token, which is stored nowhere and shown only once, and the YAML with its
SHA-256 for the configuration.

${optionsHelp(options)}

Exit codes: 0 ok, 2 invalid usage.`;

/** 256 bits: no one can guess it, and its hash in the configuration needs no salt. */
const tokenBytes = 32;

/** Creates credentials of callers. @returns the exit code */
export function callers(argv: readonly string[], io: Io): Promise<number> {
  return runSubcommand('callers', new Map([['token', createToken]]), usage, argv, io, withheldMessage);
}

function createToken(argv: readonly string[], io: Io): number {
  const parsed = parseOptions('callers token', argv, options, usage, io);
  if ('exit' in parsed) return parsed.exit;
  const { name: caller } = parsed.values;
  if (caller !== undefined && !callerNamePattern.test(caller)) {
    io.err(
      'countersign callers token: --name must be 1 to 64 of a-z 0-9 . _ -, starting with a letter or digit',
    );
    return exitCode.usage;
  }
  const token = randomBytes(tokenBytes).toString('base64url');
  const credential = `tokenSha256: ${tokenDigest(token)}`;
  io.err('Token for the client, shown only once (Authorization: Bearer TOKEN):');
  // The first line of the output, so that a script can take it from there.
  io.out(token);
  io.err(`For the configuration, ${caller === undefined ? "in the caller's credentials" : 'in callers'}:`);
  if (caller === undefined) io.out(`- ${credential}`);
  else for (const line of [`- name: ${caller}`, `  credentials: [{ ${credential} }]`]) io.out(line);
  return exitCode.done;
}
