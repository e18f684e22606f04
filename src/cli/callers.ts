import { randomBytes } from 'node:crypto';
import { tokenDigest } from '../auth/bearer-token.ts';
import { callerNamePattern } from '../config/schema/caller.ts';
import { CliError, exitCode, withheldMessage } from './shared/cli-error.ts';
import { command, group, parsed } from './shared/command.ts';

const options = {
  'name NAME': parsed('Name of a new caller: print its whole entry instead of one credential', callerName),
};

const spec = {
  name: 'callers token',
  usage: '[--name NAME]',
  about:
    'Creates a bearer token. Prints the token, which is stored nowhere and shown only once, and the YAML with its SHA-256 for the configuration.',
  options,
  exitCodes: '0 ok, 2 invalid usage',
  describe: withheldMessage,
};

/** 256 bits: no one can guess it, and its hash in the configuration needs no salt. */
const tokenBytes = 32;

const createToken = command(spec, ({ values: { name: caller } }, io) => {
  const token = randomBytes(tokenBytes).toString('base64url');
  const credential = `tokenSha256: ${tokenDigest(token)}`;
  io.err('Token for the client, shown only once (Authorization: Bearer TOKEN):');
  // The first line of the output, so that a script can take it from there.
  io.out(token);
  io.err(`For the configuration, ${caller === undefined ? "in the caller's credentials" : 'in callers'}:`);
  if (caller === undefined) io.out(`- ${credential}`);
  else for (const line of [`- name: ${caller}`, `  credentials: [{ ${credential} }]`]) io.out(line);
  return exitCode.done;
});

function callerName(text: string, option: string): string {
  if (callerNamePattern.test(text)) return text;
  const rule = 'must be 1 to 64 of a-z 0-9 . _ -, starting with a letter or digit';
  throw new CliError(`${option} ${rule}`, exitCode.usage);
}

/** Creates credentials of callers. */
export const callers = group('callers', [['token', 'Create a bearer token', async () => createToken]]);
