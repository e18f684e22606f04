import { group } from '../shared/command.ts';
import { generateKey } from './generate.ts';
import { importKey } from './import.ts';
import { listKeys } from './list.ts';
import { rollBack } from './rollback.ts';
import { verifyKeys } from './verify.ts';

const subcommands = new Map([
  ['list', listKeys],
  ['generate', generateKey],
  ['import', importKey],
  ['verify', verifyKeys],
  ['rollback', rollBack],
]);

const usage = `Usage: countersign keys SUBCOMMAND --config FILE --environment NAME [options]

Subcommands:
  list      List versions, ages and fingerprints
  generate  Generate an RSA key pair and store the private key in Vault
  import    Import an existing control key or private key
  verify    Test which key versions the gateway accepts
  rollback  Restore an earlier version

Run "countersign keys SUBCOMMAND --help" for details. Private keys are never printed, never passed as
arguments and never written to a file. Writes use check-and-set and fail if the secret changed concurrently.

Rotating an RSA key: Vault first
  1. countersign keys generate --config FILE --environment NAME --login LOGIN --public-key new.pem
     The gateway does not know the new key yet. Within a minute Countersign signs a query with it, gets a 403,
     retries with the previous version and keeps using it: no query fails. Payments are not retried; they keep
     using the last accepted version.
  2. Send new.pem and its fingerprint to the gateway's support manager.
  3. countersign keys verify ... shows when the gateway accepts the new version. Countersign switches at the
     first 403 of the old one. Finish within 24 h (keys.rotationGracePeriod); after that the old version is
     not tried. Payments in flight at the switch get that 403 and are not processed; so does the first one
     after it in each instance, and in one started since step 1. A status query through each instance
     prevents the latter.
  4. To abort: countersign keys rollback ... --to-version N

Rotating a control key: gateway first
  1. Get the new control key from the gateway.
  2. countersign keys import ... --kind control_key, then paste it. Until then queries get 403; the next one
     after that is retried with the new key.
  3. countersign keys verify ...

Metrics to watch (dashboard "Keys and rotation")
  countersign_key_version               latest version that an instance has read
  countersign_key_signing_version       version used for signing; lower while the gateway rejects the latest
  countersign_key_fallbacks_total       requests accepted with another version after a 403
  countersign_gateway_rejections_total  403s of the gateway; cause "other-key": another version was accepted

Options:
  --help  Show this help

Exit codes: 0 ok, 1 failure (the message states what was written), 2 invalid configuration or usage.`;

/** Manages keys, for the platform team. */
export const keys = group('keys', usage, subcommands);
