import { group } from '../shared/command.ts';

const more = `

Private keys are never printed, never passed as arguments and never written to a file. Writes use
check-and-set and fail if the secret changed concurrently.

Rotating an RSA key: Vault first
  1. countersign keys generate --config FILE --environment NAME --login LOGIN --public-key new.pem
     The gateway does not know the new key yet: Countersign reads it, and signs with the previous one.
  2. Send new.pem and its fingerprint to the gateway's support manager.
  3. countersign keys verify ... shows when the gateway accepts the new version. The first 403 for the old one
     makes Countersign sign a query again, and the caller's next payment, with the new one. Payments in flight
     get that 403 and are not processed; so does the first one of each caller and endpoint, unless a status
     query through the same instance comes before it. Finish within 24 h (keys.rotationGracePeriod).
  4. To abort: countersign keys rollback ... --to-version N

Rotating a control key: gateway first
  1. Get the new control key from the gateway.
  2. countersign keys import ... --kind control_key, then paste it. Until then its requests get 403; 2 seconds
     later they succeed.
  3. countersign keys verify ...

Metrics to watch (dashboard "Keys and rotation")
  countersign_key_version               latest version that an instance has read
  countersign_key_signing_version       version used for signing; lower while the latest waits for the gateway
  countersign_key_fallbacks_total       how often another version was accepted after a rejection
  countersign_gateway_rejections_total  requests with a 401 or 403; "other-key": another version was accepted

Exit codes: 0 ok, 1 failure (the message states what was written), 2 invalid configuration or usage.`;

/** Manages keys, for the platform team. */
export const keys = group(
  'keys',
  [
    ['list', 'List versions, ages and fingerprints', async () => (await import('./list.ts')).listKeys],
    [
      'generate',
      'Generate an RSA key pair and store the private key in Vault',
      async () => (await import('./generate.ts')).generateKey,
    ],
    [
      'import',
      'Import an existing control key or private key',
      async () => (await import('./import.ts')).importKey,
    ],
    [
      'verify',
      'Test which key versions the gateway accepts',
      async () => (await import('./verify.ts')).verifyKeys,
    ],
    ['rollback', 'Restore an earlier version', async () => (await import('./rollback.ts')).rollBack],
  ],
  more,
);
