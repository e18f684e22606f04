import { randomBytes } from 'node:crypto';
import { tokenDigest } from '../auth/bearer-token.ts';
import { exitCode, withheldMessage } from './shared/cli-error.ts';
import { command, group } from './shared/command.ts';

const spec = {
  name: 'callers token',
  usage: '',
  about:
    'Creates a bearer token. Prints the token, which is stored nowhere and shown only once, and its SHA-256 as a credential for the configuration.',
  options: {},
  exitCodes: '0 ok, 2 invalid usage',
  describe: withheldMessage,
};

/** 256 bits: no one can guess it, and its hash in the configuration needs no salt. */
const tokenBytes = 32;

const createToken = command(spec, (_, io) => {
  const token = randomBytes(tokenBytes).toString('base64url');
  io.err('Token for the client, shown only once (Authorization: Bearer TOKEN):');
  // The first line of the output, so that a script can take it from there.
  io.out(token);
  io.err("For the configuration, in the caller's credentials:");
  io.out(`- tokenSha256: ${tokenDigest(token)}`);
  return exitCode.done;
});

/** Creates credentials of callers. */
export const callers = group('callers', [['token', 'Create a bearer token', async () => createToken]]);
