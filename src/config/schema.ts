import { z } from 'zod';
import { caller, issuerName, jwtIssuer, tokenSha256 } from './schema/caller.ts';
import { environments } from './schema/environment.ts';
import { keys, type vault } from './schema/keys.ts';
import { type operation, type operationOverride, operationOverrides } from './schema/operation.ts';
import { payments } from './schema/payments.ts';
import {
  count,
  dictionary,
  duration,
  egressProxy,
  filePath,
  flag,
  hostNames,
  isFitForTunnel,
  logLevels,
  matching,
  minVersion,
  optionalFile,
  orText,
  port,
  secretIn,
  text,
  timeout,
  wholeNumber,
} from './schema/values.ts';
import { httpUrlSuchAs, isPlaintextRemote } from './url.ts';

/** Of both ports. */
const listenerTls = z
  .strictObject({
    certFile: filePath.describe('Certificate chain.'),
    keyFile: filePath.describe('Private key of certFile.'),
    clientCaFile: optionalFile.describe(
      'CA of client certificates. On the admin port, all but /healthz and /readyz require one then.',
    ),
    clientCrlFile: optionalFile.describe(
      'Revocation lists, one for each CA of a chain. From its nextUpdate on, no client certificate is accepted.',
    ),
    minVersion,
  })
  .refine(({ clientCaFile, clientCrlFile }) => clientCaFile !== undefined || clientCrlFile === undefined, {
    path: ['clientCrlFile'],
    message: 'requires clientCaFile, whose CAs have signed the lists',
  })
  .optional()
  .describe('Certificates for HTTPS; plain HTTP without it.');

const listenerTimeouts = z.strictObject({
  headers: timeout('10s').describe('Time for the headers.'),
  body: timeout('10s').describe('Time for the body, and for reading the response.'),
  shutdownDelay: duration('5s').describe('How long requests are still accepted after SIGTERM.'),
  shutdown: duration('35s').describe('How long requests in flight may take then.'),
});

const proxy = z.strictObject({
  host: text.default('127.0.0.1').describe('Address; `::` is IPv6 and IPv4.'),
  port: port.prefault(8080).describe('0 picks a free port.'),
  tls: listenerTls,
  maxConnections: count.prefault(1_000).describe('Excess ones are closed.'),
  maxBodyBytes: wholeNumber(1, 16_777_216).prefault(65_536).describe('Size of a form.'),
  maxBufferedBytes: wholeNumber(1_048_576, 1_099_511_627_776)
    .prefault(67_108_864)
    .describe(
      'Bytes of forms and responses. Excess requests get 503 `overloaded`, excess responses are streamed.',
    ),
  maxParameters: wholeNumber(1, 10_000).prefault(1000).describe('Parameters of a form.'),
  timeouts: listenerTimeouts.prefault({}).describe('Time limits for clients.'),
  allowPlaintext: flag.describe('Accept tokens without TLS beyond loopback, where a mesh encrypts.'),
  allowAnonymous: flag.describe('Allow anonymous callers beyond loopback.'),
  allowedHosts: hostNames.describe(
    'What anonymous callers may have in `Host`, besides IP addresses and localhost.',
  ),
});

const admin = z.strictObject({
  host: text.default('127.0.0.1').describe('Address; `::` is IPv6 and IPv4.'),
  port: port.prefault(9090).describe('0 picks a free port.'),
  tls: listenerTls,
  maxConnections: count
    .prefault(100)
    .describe('Beyond it, all are closed, so that the next probe finds room.'),
  allowedHosts: hostNames.describe(
    'What /, /status.json and /metrics accept in `Host`, besides IP addresses and localhost.',
  ),
  tokenSha256: tokenSha256
    .optional()
    .describe('SHA-256 of the token for the status. Without it, it is open on loopback, and off beyond.'),
  runbookUrl: httpUrlSuchAs('https://wiki.example/runbook')
    .optional()
    .describe('URL of your copy of deploy/runbook.md, for links.'),
});

const signing = z.strictObject({
  concurrency: wholeNumber(1, 64)
    .optional()
    .describe(
      'RSA signatures at once. Default: `UV_THREADPOOL_SIZE` less two; that is the cores (2 to 8) plus three unless you set it.',
    ),
  maxQueue: count
    .prefault(200)
    .describe(
      'RSA signatures that wait, and as many in Vault; excess requests get 503 `overloaded`. One caller has half.',
    ),
});

/** Those that every export has; set ones would contradict them. */
const ownHeaders = /^(content-.*|transfer-encoding|host|connection|expect|upgrade|te|trailer)$/i;

const headerName = matching(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/, 'must have names of HTTP headers').refine(
  (name) => !ownHeaders.test(name),
  'must not have a header that belongs to the export itself',
);

const headerValue = secretIn(
  z
    .string()
    .max(8192)
    .regex(/^[\x20-\x7e]+$/, 'must have values of printable ASCII'),
);

const fraction = orText(z.number().min(0).max(1), { type: 'number', minimum: 0, maximum: 1 }, (value) =>
  typeof value === 'string' && /^\d(\.\d{1,9})?$/.test(value) ? Number(value) : value,
);

/** Traces of requests, sent to an OpenTelemetry collector. */
const tracing = z
  .strictObject({
    otlp: httpUrlSuchAs('https://collector.example:4318').describe(
      'OTLP over HTTP, such as https://collector:4318.',
    ),
    sampleRatio: fraction.prefault(0.01).describe('Part of the traces that is recorded.'),
    headers: dictionary(headerName, headerValue)
      .prefault({})
      .describe('Headers of exports, such as `Authorization: ${OTLP_AUTHORIZATION}`.'),
    caFile: optionalFile.describe('CA of the receiver.'),
    minVersion,
    egressProxy,
  })
  .refine(({ otlp, headers }) => Object.keys(headers).length === 0 || !isPlaintextRemote(otlp), {
    path: ['otlp'],
    message: 'must use https unless the host is loopback, because headers hold credentials',
  })
  .refine(({ otlp, egressProxy }) => isFitForTunnel(otlp, egressProxy), {
    path: ['egressProxy'],
    message: 'must not be set for a receiver without https',
  });

const audit = z
  .strictObject({
    directory: filePath
      .optional()
      .describe('Folder of the trail. Absent: standard output, between log lines.'),
    keyFile: filePath.describe('Key that seals the records, at least 32 bytes.'),
    required: flag.describe('Send nothing before its record is written, else 503 `audit-unavailable`.'),
    sync: flag.describe('Write through to the disk (fdatasync), against power failures.'),
  })
  .refine(({ directory, sync }) => !sync || directory !== undefined, {
    path: ['sync'],
    message: 'needs a directory: standard output cannot be written through to a disk',
  });

/** The configuration file. Parsing returns {@link Config}; rules across fields are in rules.ts. */
export const configSchema = z.strictObject(
  {
    proxy: proxy.prefault({}).describe('The proxy port, where clients send their forms.'),
    admin: admin
      .prefault({})
      .describe('The admin port, with /, /status.json, /metrics, /healthz and /readyz.'),
    environments: environments.describe(
      'By name, the first path segment of a request. Each has its own gateway.',
    ),
    operations: operationOverrides.describe('Further operations, or overrides of the built-in ones.'),
    operationsFile: optionalFile.describe('File with more `operations`, which override its fields.'),
    keys: keys.describe('The key source: where control keys and RSA private keys come from.'),
    signing: signing.prefault({}).describe('Limits for RSA signing.'),
    jwtIssuers: dictionary(issuerName, jwtIssuer)
      .prefault({})
      .describe('Issuers of JSON Web Tokens, by name.'),
    payments: payments.prefault({}).describe('Operations that are not read-only.'),
    callers: z.array(caller).prefault([]).describe('Callers and what each may do.'),
    audit: audit
      .optional()
      .describe('The audit trail: what was signed, for whom and with which key. Absent: none.'),
    tracing: tracing
      .optional()
      .describe('Traces of requests, sent to an OpenTelemetry collector. Absent: none.'),
    allowUnsafeNode: flag.describe('Start on a Node that can mix up responses.'),
    log: z
      .strictObject({
        level: z.enum(logLevels).default('info').describe('Lowest level that is logged.'),
      })
      .prefault({})
      .describe('Logging: JSON lines on standard output.'),
  },
  {
    error: ({ code }) =>
      code === 'invalid_type' ? 'must be a mapping that contains at least environments and keys' : undefined,
  },
);

/** Parsed and defaulted: durations are milliseconds. */
export type Config = z.output<typeof configSchema>;
export type EnvironmentConfig = Config['environments'][string];
export type OperationOverride = z.output<typeof operationOverride>;
export type OperationConfig = z.output<typeof operation>;
export type CallerConfig = Config['callers'][number];
export type JwtIssuerConfig = Config['jwtIssuers'][string];
export type OnceConfig = NonNullable<Config['payments']['once']>;
export type AuditConfig = NonNullable<Config['audit']>;
export type KeysConfig = Config['keys'];
export type CacheConfig = KeysConfig['cache'];
export type VaultConfig = z.output<typeof vault>;

export type Schema = z.core.JSONSchema.JSONSchema;

/** JSON Schema of the configuration file, for editors: `config/schema.json`. */
export function configJsonSchema(): Schema {
  return z.toJSONSchema(configSchema, {
    io: 'input',
    target: 'draft-7',
    override: ({ jsonSchema, path }) => {
      if (!path.includes('propertyNames')) allowVariable(jsonSchema);
    },
  });
}

/** Any value may be a variable, which an editor cannot resolve. Zod visits some schemas more than once. */
function allowVariable(schema: Schema): void {
  const variable = '\\$\\{';
  if (schema.type === 'integer' || schema.type === 'number')
    Object.assign(schema, { type: [schema.type, 'string'], pattern: variable });
  if (schema.pattern?.endsWith(variable) === false) schema.pattern = `${schema.pattern}|${variable}`;
}
