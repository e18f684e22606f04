import { z } from 'zod';
import {
  count,
  duration,
  egressProxy,
  filePath,
  isFitForTunnel,
  matching,
  minVersion,
  optionalFile,
  secret,
  secureUrlSuchAs,
  text,
  timeout,
  tunnelRequiresHttps,
  wholeNumber,
} from './values.ts';

/** Vault paths are not encoded, so only characters that cannot reach another path are allowed. */
const segments = /^(?!\.{1,2}(\/|$))[\w.-]+(\/(?!\.{1,2}(\/|$))[\w.-]+)*$/;
const mount = matching(segments, 'must be a mount path such as secret or team/kv');

/** Requires exactly one of two fields. */
function exactlyOne<F extends string>(one: F, other: F) {
  return [
    (fields: Partial<Record<F, unknown>>) => (fields[one] === undefined) !== (fields[other] === undefined),
    `requires exactly one of ${one} and ${other}`,
  ] as const;
}

const token = z
  .strictObject({
    method: z.literal('token').describe('A pre-issued Vault token.'),
    token: secret.optional().describe('As ${NAME} from a variable.'),
    tokenFile: optionalFile.describe('Read at each login.'),
  })
  .refine(...exactlyOne('token', 'tokenFile'));

const appRole = z
  .strictObject({
    method: z.literal('approle').describe('Vault AppRole.'),
    mount: mount.default('approle').describe('Mount of the auth method.'),
    roleId: text.optional().describe('Role ID.'),
    roleIdFile: optionalFile.describe('Read at each login.'),
    secretIdFile: filePath.describe('Read at each login.'),
  })
  .refine(...exactlyOne('roleId', 'roleIdFile'));

const kubernetes = z.strictObject({
  method: z.literal('kubernetes').describe('Kubernetes service account.'),
  mount: mount.default('kubernetes').describe('Mount of the auth method.'),
  role: text.describe('Role of the auth method.'),
  jwtFile: filePath
    .default('/var/run/secrets/kubernetes.io/serviceaccount/token')
    .describe('Token of the service account; read at each login.'),
});

/**
 * Every pair of environment and login must have a separate path, or one environment could sign with the key of
 * another. Within one segment, the two need a separator that no environment name contains.
 */
const secretPath = matching(
  /^(?!.*\{(environment|login)\}.*\{\1\})(?=.*\{environment\})(?=.*\{login\})/,
  'must contain {environment} and {login}, each once, such as gateway/{environment}/{login}',
).superRefine((value, context) => {
  if (context.issues.length > 0) return;
  if (!segments.test(value.replaceAll(/\{(environment|login)\}/g, 'x')))
    context.addIssue('must be plain segments joined by "/", such as gateway/{environment}/{login}');
  else if (!/\}.*[/._~@].*\{/.test(value))
    context.addIssue(
      'requires "/", "." or "_" between {environment} and {login}, so that no two keys share a path',
    );
});

const transit = z
  .strictObject({
    mounts: z.record(z.string(), mount).describe('Mount of the Transit engine of each environment.'),
    maxInFlight: wholeNumber(2, 256)
      .prefault(32)
      .describe('Signatures at once, for each environment; a caller has half.'),
    maxPerSecond: wholeNumber(2, 100_000)
      .prefault(500)
      .describe('Signatures per second, for each environment; a caller has half.'),
  })
  .optional()
  .describe(
    "Private keys that never leave Vault: a login whose secret has the field transit_key, such as acme:3, is signed for by version 3 of the key acme in Vault's Transit engine.",
  );

export const auth = z.discriminatedUnion('method', [token, appRole, kubernetes]);

export const vault = z
  .strictObject({
    address: secureUrlSuchAs('https://vault.example:8200').describe('https://host[:port].'),
    mount: mount.default('secret').describe('Mount of the KV version 2 engine.'),
    path: secretPath.default('gateway/{environment}/{login}').describe('Path of a login below it.'),
    namespace: matching(segments, 'must be a namespace such as team/payments')
      .optional()
      .describe('Namespace of Vault Enterprise.'),
    caFile: optionalFile.describe('CA of Vault.'),
    certFile: optionalFile.describe('Client certificate for Vault.'),
    keyFile: optionalFile.describe('Private key of certFile.'),
    minVersion,
    egressProxy,
    transit,
    timeout: timeout('5s').describe('Time for one request.'),
    auth: auth.describe('How to log in.'),
  })
  .refine(
    ({ certFile, keyFile }) => (certFile === undefined) === (keyFile === undefined),
    'requires both certFile and keyFile, or neither',
  )
  .refine(({ address, egressProxy }) => isFitForTunnel(address, egressProxy), {
    path: ['address'],
    message: tunnelRequiresHttps,
  });

const cache = z
  .strictObject({
    ttl: duration('60s').describe('When the keys of a login in use are read again.'),
    staleIfError: duration('12h').describe(
      'How long cached keys sign while the source fails, and are kept unused.',
    ),
    negativeTtl: duration('10s').describe('How long a login without keys is remembered.'),
    maxEntries: count.prefault(10_000).describe('Logins in the cache.'),
  })
  .refine(({ ttl, staleIfError }) => ttl <= staleIfError, {
    path: ['staleIfError'],
    message: 'must not be shorter than ttl',
  })
  .prefault({})
  .describe('The key cache in memory.');

const rotationGracePeriod = duration('24h').describe('How long a superseded key may sign.');

const shared = { cache, rotationGracePeriod };

export const keys = z.discriminatedUnion('source', [
  z.strictObject({
    source: z.literal('vault').describe('Keys in Vault, KV version 2.'),
    vault: vault.describe('Where Vault is and how to log in.'),
    ...shared,
  }),
  z.strictObject({
    source: z.literal('directory').describe('Keys in files.'),
    directory: text.describe('Has {environment}/{login}/control_key and private_key.pem.'),
    ...shared,
  }),
]);
