import { z } from 'zod';
import { Secret } from '../secret.ts';

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `500ms`, `3s`, `15m`, `12h`, `7d` -> milliseconds. */
function duration(fallback: string) {
  return z
    .string()
    .regex(/^\d{1,6}(ms|s|m|h|d)$/, 'must be a duration such as 500ms, 3s, 15m, 12h or 7d')
    .default(fallback)
    .transform((text) => Number.parseInt(text, 10) * (units[text.replace(/^\d+/, '')] ?? 0));
}

/** Names, logins, endpoints: design section 3. Neither `.` nor `..`. */
const identifier = z
  .string()
  .regex(
    /^(?!\.{1,2}$)[A-Za-z0-9._~@-]{1,128}$/,
    'must be 1 to 128 of A-Z a-z 0-9 . _ ~ @ - and not "." or ".."',
  );
const environmentName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,31}$/, 'must be 1 to 32 of a-z 0-9 -, starting with a letter');
const filePath = z.string().min(1, 'must name a file');
const port = z.int().min(0).max(65_535);
const secret = z
  .string()
  .min(1)
  .transform((text) => new Secret(text));

const deadlines = z.strictObject({ connect: duration('3s'), exchange: duration('30s') }).prefault({});

const operationFields = {
  path: z
    .string()
    .regex(
      /^\/api(\/([A-Za-z0-9._~-]+|\{(login|endpoint|endpointGroup)\}))+$/,
      'must look like /api/v4/status/{endpoint}',
    )
    .describe('Path after /{product}; {login}, {endpoint} and {endpointGroup} stand for one segment.'),
  signature: z.enum(['HMAC-SHA1', 'RSA-SHA256']),
  login: z
    .enum(['path', 'body', 'header'])
    .describe(
      'Where the login stands: in the path, in the body parameter "login", or in Countersign-Login / the endpoints map.',
    ),
  repeatable: z.boolean().describe('A read: safe to send again.'),
  repeatAfterRejection: z
    .boolean()
    .describe('Sign again with another key version after a 403, though not repeatable.'),
  parameters: z.record(
    z.string().min(1),
    z.strictObject({ required: z.boolean().default(false), maxLength: z.int().positive().optional() }),
  ),
};
const operation = z.strictObject(operationFields);
/** Exact: a field left out is absent, so it cannot hide the field below it as `undefined`. */
const operationOverride = operation.exactPartial();
const operations = z.record(z.string().regex(/^[a-z][a-z0-9-]{0,63}$/), operationOverride).default({});

const environment = z.strictObject({
  baseUrl: z.string().describe('https://host[:port][/path]; no query, no fragment.'),
  product: z
    .string()
    .regex(/^[A-Za-z0-9_~-]{1,64}$/)
    .describe('First path segment of the gateway, "gw" in its interface.'),
  deadlines,
  maxInFlight: z.int().positive().default(500),
  endpoints: z.record(identifier, identifier).default({}).describe('Endpoint or endpoint group id -> login.'),
  operations: operations.describe('Overrides for this environment.'),
  responseHeaders: z
    .array(z.string().regex(/^[A-Za-z0-9-]+$/))
    .default([])
    .describe('Further gateway headers given back.'),
  caFile: filePath.optional().describe('PEM file of the CA that signed the gateway certificate.'),
  allowPlainHttp: z.boolean().default(false),
});

const vaultAuth = z.discriminatedUnion('method', [
  z.strictObject({ method: z.literal('token'), token: secret.optional(), tokenFile: filePath.optional() }),
  z.strictObject({
    method: z.literal('approle'),
    mount: z.string().default('approle'),
    roleId: z.string().optional(),
    roleIdFile: filePath.optional(),
    secretIdFile: filePath.optional(),
    wrappedSecretIdFile: filePath.optional(),
  }),
  z.strictObject({
    method: z.literal('kubernetes'),
    mount: z.string().default('kubernetes'),
    role: z.string().min(1),
    jwtFile: filePath.default('/var/run/secrets/kubernetes.io/serviceaccount/token'),
  }),
]);

const vault = z.strictObject({
  address: z.string(),
  mount: z.string().default('secret'),
  path: z.string().default('gateway/{environment}/{login}'),
  namespace: z.string().optional(),
  caFile: filePath.optional(),
  certFile: filePath.optional(),
  keyFile: filePath.optional(),
  timeout: duration('5s').describe('Deadline over one whole exchange with Vault.'),
  auth: vaultAuth,
});

const cache = z
  .strictObject({
    fresh: duration('60s'),
    stale: duration('12h'),
    missing: duration('10s'),
    entries: z.int().positive().default(10_000),
  })
  .prefault({});

const overlap = duration('24h').describe('How long a superseded key may still be tried after a 403.');
const keys = z.discriminatedUnion('source', [
  z.strictObject({ source: z.literal('vault'), vault, cache, overlap }),
  z.strictObject({ source: z.literal('directory'), directory: z.string().min(1), cache, overlap }),
]);

const credential = z.union([
  z.strictObject({ tokenSha256: z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 lower-case hex digits') }),
  z.strictObject({ certificateUri: z.string().min(1) }),
  z.strictObject({ certificateDns: z.string().min(1) }),
  z.strictObject({ anonymous: z.literal(true) }),
]);
const pattern = z.string().regex(/^[A-Za-z0-9._~@-]{0,128}\*?$/, 'must be a login, or a prefix ending in *');
const grant = z.strictObject({
  environments: z.array(z.string()).min(1),
  operations: z.array(z.string()).min(1),
  logins: z.array(pattern).min(1),
});
const caller = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9._-]{0,63}$/),
  mode: z.enum(['enforce', 'report']).default('enforce'),
  credentials: z.array(credential).min(1),
  allow: z.array(grant).default([]),
});

const tls = z.strictObject({ certFile: filePath, keyFile: filePath, clientCaFile: filePath.optional() });

/** The configuration file as design section 13 shows it. Parsing gives {@link Config}. */
export const configShape = z.strictObject({
  proxy: z
    .strictObject({
      host: z.string().default('127.0.0.1'),
      port: port.default(8080),
      tls: tls.optional(),
      maxBodyBytes: z.int().positive().max(16_777_216).default(65_536),
      maxParameters: z.int().positive().default(1000),
      deadlines: z
        .strictObject({ headers: duration('10s'), body: duration('10s'), drain: duration('35s') })
        .prefault({}),
      allowAnonymous: z.boolean().default(false),
    })
    .prefault({}),
  admin: z.strictObject({ host: z.string().default('127.0.0.1'), port: port.default(9090) }).prefault({}),
  environments: z.record(environmentName, environment),
  operations: operations.describe('Further operations, or overrides of fields of the built-in ones.'),
  keys,
  signing: z
    .strictObject({
      concurrency: z
        .int()
        .min(1)
        .max(64)
        .default(3)
        .describe('RSA signatures at once; below the size of the libuv pool (4).'),
      queue: z
        .int()
        .positive()
        .default(200)
        .describe('RSA signatures waiting; more are refused as overloaded.'),
    })
    .prefault({}),
  callers: z.array(caller).default([]),
  log: z
    .strictObject({ level: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info') })
    .prefault({}),
});

/** Parsed and defaulted: durations are milliseconds. */
export type Config = z.output<typeof configShape>;
export type EnvironmentConfig = Config['environments'][string];
export type OperationOverride = z.output<typeof operationOverride>;
export type OperationConfig = z.output<typeof operation>;
export type CallerConfig = Config['callers'][number];
export type KeysConfig = Config['keys'];
export type CacheConfig = KeysConfig['cache'];
export type VaultConfig = z.output<typeof vault>;
