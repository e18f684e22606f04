import { z } from 'zod';
import { isPlaintextRemote, webAddress } from '../url.ts';
import { count, deadline, duration, filePath, secret, text } from './values.ts';

/** Vault paths are not encoded on their way out: only what cannot reach another path. */
const segments = /^(?!\.{1,2}(\/|$))[\w.-]+(\/(?!\.{1,2}(\/|$))[\w.-]+)*$/;
const mount = z.string().regex(segments, 'must be a mount path such as secret or team/kv');

/** Refuses an object unless exactly one of two fields is given. */
function exactlyOne<F extends string>(one: F, other: F) {
  return [
    (fields: Partial<Record<F, unknown>>) => (fields[one] === undefined) !== (fields[other] === undefined),
    `needs exactly one of ${one} and ${other}`,
  ] as const;
}

const token = z
  .strictObject({
    method: z.literal('token').describe('A Vault token that somebody else obtained.'),
    token: secret.optional().describe('The token, as ${NAME} from the environment.'),
    tokenFile: filePath.optional().describe('File that holds the token; read again at each login.'),
  })
  .refine(...exactlyOne('token', 'tokenFile'));

const appRole = z
  .strictObject({
    method: z.literal('approle').describe('Vault AppRole.'),
    mount: mount.default('approle').describe('Where the auth method is mounted.'),
    roleId: text.optional().describe('Role id.'),
    roleIdFile: filePath.optional().describe('File that holds the role id; read again at each login.'),
    secretIdFile: filePath.optional().describe('File that holds the secret id; read again at each login.'),
    wrappedSecretIdFile: filePath
      .optional()
      .describe('File that holds a response-wrapping token for the secret id; read again at each login.'),
  })
  .refine(...exactlyOne('roleId', 'roleIdFile'))
  .refine(...exactlyOne('secretIdFile', 'wrappedSecretIdFile'));

const kubernetes = z.strictObject({
  method: z.literal('kubernetes').describe('Kubernetes service account.'),
  mount: mount.default('kubernetes').describe('Where the auth method is mounted.'),
  role: text.describe('Role of the auth method.'),
  jwtFile: filePath
    .default('/var/run/secrets/kubernetes.io/serviceaccount/token')
    .describe('File that holds the service account token; read again at each login.'),
});

/**
 * Every (environment, login) has to lead to a path of its own, or one environment could sign with the key of
 * another. In one segment the two need something between them that no environment name holds.
 */
const secretPath = z
  .string()
  .regex(/^(?!.*\{(environment|login)\}.*\{\1\})(?=.*\{environment\})(?=.*\{login\})/, {
    abort: true,
    error: 'must hold {environment} and {login}, each once, such as gateway/{environment}/{login}',
  })
  .refine((value) => segments.test(value.replaceAll(/\{(environment|login)\}/g, 'x')), {
    abort: true,
    error: 'must be plain segments joined by "/", such as gateway/{environment}/{login}',
  })
  .refine(
    (value) => /\}.*[/._~@].*\{/.test(value),
    'needs "/", "." or "_" between {environment} and {login}, so that no two keys share a path',
  );

export const vault = z
  .strictObject({
    address: webAddress
      .refine((value) => !isPlaintextRemote(value), 'must be https: beyond this machine')
      .describe('Address of Vault: https://host[:port].'),
    mount: mount.default('secret').describe('Where the KV version 2 engine is mounted.'),
    path: secretPath
      .default('gateway/{environment}/{login}')
      .describe('Path of a login below the mount; holds {environment} and {login}.'),
    namespace: z
      .string()
      .regex(segments, 'must be a namespace such as team/payments')
      .optional()
      .describe('Vault Enterprise namespace.'),
    caFile: filePath.optional().describe('PEM file of the CA that signed the Vault certificate.'),
    certFile: filePath.optional().describe('PEM file of the client certificate for Vault.'),
    keyFile: filePath.optional().describe('PEM file of the key of certFile.'),
    timeout: deadline('5s').describe('Deadline over one whole exchange with Vault.'),
    auth: z.discriminatedUnion('method', [token, appRole, kubernetes]).describe('How to log in.'),
  })
  .refine(
    ({ certFile, keyFile }) => (certFile === undefined) === (keyFile === undefined),
    'needs certFile and keyFile together, or neither',
  );

const cache = z
  .strictObject({
    ttl: duration('60s').describe(
      'How long a key is used without asking the source again; without requests for its login it is read again after five times that.',
    ),
    staleIfError: duration('12h').describe(
      'How long it is used while the source does not answer, and kept while no request uses it.',
    ),
    negativeTtl: duration('10s').describe('How long it is remembered that a login has no key.'),
    maxEntries: count.prefault(10_000).describe('Logins remembered at most.'),
  })
  .refine(({ ttl: fresh, staleIfError: stale }) => fresh <= stale, {
    path: ['staleIfError'],
    message: 'must not be shorter than ttl',
  })
  .prefault({})
  .describe('Keys in memory.');

const rotationGracePeriod = duration('24h').describe(
  'How long a superseded key may still be tried after a 403.',
);

const rotation = z
  .strictObject({
    canary: z
      .boolean()
      .default(false)
      .describe(
        'Whether a read-only query is sent ahead of a payment while the gateway has not accepted the latest key.',
      ),
  })
  .prefault({})
  .describe('Key rotation.');

export const keys = z.discriminatedUnion('source', [
  z.strictObject({
    source: z.literal('vault').describe('Keys in Vault, KV version 2.'),
    vault: vault.describe('Where Vault is and how to log in.'),
    cache,
    rotationGracePeriod,
    rotation,
  }),
  z.strictObject({
    source: z.literal('directory').describe('Keys mounted as files.'),
    directory: text.describe('Folder of {environment}/{login}/control_key and private_key.pem.'),
    cache,
    rotationGracePeriod,
    rotation,
  }),
]);
