import { CliError, operatorMessage } from '../shared/cli-error.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { generateKey } from './generate.ts';
import { importKey } from './import.ts';
import { listKeys } from './list.ts';
import { rollBack } from './rollback.ts';
import { verifyKeys } from './verify.ts';

type Subcommand = (argv: readonly string[], io: Io) => Promise<number>;

const subcommands = new Map<string, Subcommand>([
  ['list', listKeys],
  ['generate', generateKey],
  ['import', importKey],
  ['verify', verifyKeys],
  ['rollback', rollBack],
]);

const usage = `Usage: countersign keys list | generate | import | verify | rollback [options]

  list      shows versions, ages and fingerprints
  generate  makes an RSA key pair: the private key goes to Vault, the public key is printed
  import    writes a control key or a private key that somebody else made to Vault
  verify    asks the gateway which versions it accepts
  rollback  writes an earlier version again

countersign keys COMMAND --help tells more. A private key is never printed, never an argument and never in a
file that Countersign makes. What writes, refuses if somebody else has written meanwhile.

Rotating an RSA key: Vault first
  1. countersign keys generate --config FILE --environment NAME --login LOGIN --public-key new.pem
     The gateway does not know the new key yet. Countersign signs a query with it within a minute, gets a 403,
     signs the query again with the version before and stays with that one: no query fails. A payment is not
     signed again by itself; it keeps to the version that the gateway took last.
  2. Send new.pem and its fingerprint to the gateway's support manager.
  3. countersign keys verify ...: says when the gateway accepts the new version. Countersign goes over to it
     at the first 403 of the old one. Keep to keys.rotationGracePeriod (24 h); then the old one
     is not tried any more.
     Payments in flight at the switch get that 403, and nothing is done. To avoid that, set
     keys.rotation.canary, or send one status query through each instance, also those started since step 1.
  4. If it does not come to that: countersign keys rollback ... --to VERSION

Rotating a control key: gateway first
  1. Get the new control key from the gateway.
  2. countersign keys import ... --kind control_key, and paste it. Until then queries get 403; the first one
     after it is signed again with the new key.
  3. countersign keys verify ...

What to watch meanwhile (dashboard "keys and rotation")
  countersign_key_version          newest version that an instance has read
  countersign_key_signing_version  version that signs; the lower one while the gateway refuses the newest
  countersign_key_fallbacks_total  how often an instance went over to another version
  countersign_key_canaries_total   read-only queries sent ahead of payments (keys.rotation.canary)
  countersign_gateway_rejections_total     403 of the gateway; cause "other-key" means that another version helped

Exit codes: 0 done, 1 failed (and what was written, is said), 2 wrong usage.`;

/** What the platform team does with keys. Gives the exit code. */
export async function keys([name = '--help', ...argv]: readonly string[], io: Io): Promise<number> {
  if (name === '--help') {
    io.out(usage);
    return exitCode.done;
  }
  const subcommand = subcommands.get(name);
  if (subcommand === undefined) {
    io.err(`countersign keys: there is no "${name}".\nSee: countersign keys --help`);
    return exitCode.usage;
  }
  try {
    return await subcommand(argv, io);
  } catch (error) {
    const exit = error instanceof CliError ? error.exit : exitCode.failed;
    const hint = exit === exitCode.usage ? `\nSee: countersign keys ${name} --help` : '';
    io.err(`countersign keys ${name}: ${operatorMessage(error)}${hint}`);
    return exit;
  }
}
