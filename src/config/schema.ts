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

/** @param clientCa what client certificates are for */
const listenerTls = (clientCa: string) =>
  z
    .strictObject({
      certFile: filePath.describe('PEM file of the certificate chain.'),
      keyFile: filePath.describe('PEM file of the private key of certFile.'),
      clientCaFile: optionalFile.describe(`PEM file of the CA that signs client certificates; ${clientCa}.`),
      clientCrlFile: optionalFile.describe(
        'PEM file of the certificate revocation lists of these CAs, one for each CA of a chain. From its nextUpdate on, no client certificate is accepted: replace it in time, while Countersign runs.',
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
  headers: timeout('10s').describe(
    'Maximum time to receive the request headers, from the first byte or the end of the response before.',
  ),
  body: timeout('10s').describe(
    'Maximum time to receive the body; also the time the client has to read the response.',
  ),
  shutdownDelay: duration('5s').describe(
    'How long requests are still accepted after SIGTERM, until load balancers stop sending them.',
  ),
  shutdown: duration('35s').describe('How long in-flight requests may take to finish on shutdown.'),
});

const proxy = z.strictObject({
  host: text
    .default('127.0.0.1')
    .describe('Address to listen on; `::` is IPv6 and IPv4, whichever there is.'),
  port: port.prefault(8080).describe('Port to listen on; 0 picks a free port.'),
  tls: listenerTls('required for client-certificate authentication'),
  maxConnections: count
    .prefault(1_000)
    .describe(
      'Maximum concurrent client connections; excess connections are closed. Each may take 150 kB of memory, or 200 kB with TLS.',
    ),
  maxBodyBytes: wholeNumber(1, 16_777_216).prefault(65_536).describe('Maximum form size in bytes.'),
  maxBufferedBytes: wholeNumber(1_048_576, 1_099_511_627_776)
    .prefault(67_108_864)
    .describe(
      'Maximum bytes of forms and responses in memory, of which a caller may hold as much as it leaves free. Excess requests get 503 `overloaded`; excess responses are streamed.',
    ),
  maxParameters: wholeNumber(1, 10_000).prefault(1000).describe('Maximum number of form parameters.'),
  timeouts: listenerTimeouts.prefault({}).describe('Time limits for clients.'),
  allowPlaintext: flag.describe(
    'Accept bearer tokens and JWTs without TLS on a non-loopback address, for a service mesh or a proxy that terminates TLS.',
  ),
  allowAnonymous: flag.describe('Allow anonymous callers on a non-loopback address.'),
  allowedHosts: hostNames.describe(
    'Host names, besides IP addresses and localhost, that requests of anonymous callers may have in the Host header; others get 421 `unknown-host`.',
  ),
});

const admin = z.strictObject({
  host: text
    .default('127.0.0.1')
    .describe('Address to listen on; `::` is IPv6 and IPv4, whichever there is.'),
  port: port.prefault(9090).describe('Port to listen on; 0 picks a free port.'),
  tls: listenerTls('with it, /, /status.json and /metrics require one, /healthz and /readyz do not'),
  maxConnections: count
    .prefault(100)
    .describe(
      'Maximum concurrent connections; beyond it, all of them are closed, so that the next probe finds room.',
    ),
  allowedHosts: hostNames.describe(
    'Host names, besides IP addresses and localhost, that /, /status.json and /metrics accept in the Host header.',
  ),
  tokenSha256: tokenSha256
    .optional()
    .describe(
      'SHA-256 of the token for / and /status.json, 64 lowercase hex digits. Without it, they need no token if host is a loopback address, and are off otherwise.',
    ),
  runbookUrl: httpUrlSuchAs('https://wiki.example/runbook')
    .optional()
    .describe('URL of your copy of deploy/runbook.md, for links in the status.'),
});

const signing = z.strictObject({
  concurrency: wholeNumber(1, 64)
    .optional()
    .describe(
      'Maximum concurrent RSA signatures. Default: two fewer than `UV_THREADPOOL_SIZE`, which is set to the cores (2 to 8) plus three unless you set it.',
    ),
  maxQueue: count
    .prefault(200)
    .describe(
      'Maximum number of queued RSA signatures, and as many in Vault; excess requests get 503 `overloaded`.',
    ),
});

const maxHeaders = 20;

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
      'URL that OTLP receives traces at over HTTP, such as https://collector:4318. Without a path, /v1/traces is added.',
    ),
    sampleRatio: fraction
      .prefault(0.01)
      .describe(
        'Part of the traces that is recorded, 0 to 1. It depends on the trace ID alone: a caller cannot have more recorded by its sampled flag.',
      ),
    headers: dictionary(headerName, headerValue)
      .prefault({})
      .refine((headers) => Object.keys(headers).length <= maxHeaders, `must be at most ${maxHeaders}`)
      .describe('Headers of each export, such as `Authorization: ${OTLP_AUTHORIZATION}`.'),
    caFile: optionalFile.describe(
      'PEM file of the CA that signed the certificate of the receiver. Read for each export.',
    ),
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
      .describe(
        'Folder for the files of the audit trail. Each start of a process begins a file in it. Absent: records go to standard output, between the log lines.',
      ),
    keyFile: filePath.describe(
      'File with the key that seals the records: at least 32 bytes. Read again at SIGHUP, which also begins the next file.',
    ),
    required: flag.describe(
      'Send nothing to the gateway before its record is written; requests get 503 `audit-unavailable` while that is not possible.',
    ),
    sync: flag.describe(
      'Write records through to the disk (fdatasync), so that they also survive a power failure.',
    ),
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
      'Environments by name, which is the first path segment of a request. Each has its own gateway.',
    ),
    operations: operationOverrides.describe(
      'Additional operations, or overrides of fields of the built-in ones.',
    ),
    operationsFile: optionalFile.describe(
      'YAML file with more `operations`, such as the published ones of config/operations.yaml. `operations` overrides their fields.',
    ),
    keys: keys.describe('The key source: where control keys and RSA private keys come from.'),
    signing: signing.prefault({}).describe('Limits for RSA signing.'),
    jwtIssuers: dictionary(issuerName, jwtIssuer)
      .prefault({})
      .describe('Issuers of JSON Web Tokens by name, for credentials of callers.'),
    payments: payments.prefault({}).describe('Operations that are not read-only.'),
    callers: z.array(caller).prefault([]).describe('Callers and what each may do.'),
    audit: audit
      .optional()
      .describe('The audit trail: what was signed, for whom and with which key. Absent: none.'),
    tracing: tracing
      .optional()
      .describe('Traces of requests, sent to an OpenTelemetry collector. Absent: none.'),
    allowUnsafeNode: flag.describe(
      'For development: start on a Node version that can mix up responses. Connections are not used again there.',
    ),
    log: z
      .strictObject({
        level: z.enum(logLevels).default('info').describe('Minimum level to log.'),
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
export type TracingConfig = NonNullable<Config['tracing']>;
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
