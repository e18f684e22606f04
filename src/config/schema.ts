import { z } from 'zod';
import { caller } from './schema/caller.ts';
import { environments } from './schema/environment.ts';
import { keys, type vault } from './schema/keys.ts';
import { type operation, type operationOverride, operationOverrides } from './schema/operation.ts';
import { count, deadline, duration, filePath, hostName, port, text, wholeNumber } from './schema/values.ts';

const tls = z.strictObject({
  certFile: filePath.describe('PEM file of the certificate chain.'),
  keyFile: filePath.describe('PEM file of its key.'),
  clientCaFile: filePath
    .optional()
    .describe('PEM file of the CA that signs client certificates; needed to tell callers by certificate.'),
});

const listenerTimeouts = z.strictObject({
  headers: deadline('10s').describe('From the first byte of a request to the end of its head.'),
  body: deadline('10s').describe(
    'From the end of the head to the end of the body; as long again to read the answer.',
  ),
  shutdownDelay: duration('5s').describe(
    'How long requests are still served after SIGTERM, while load balancers learn of it.',
  ),
  shutdown: duration('35s').describe('How long requests under way may take to end when the process stops.'),
});

const proxy = z.strictObject({
  host: text.default('127.0.0.1').describe('Address to listen on.'),
  port: port.prefault(8080).describe('Port to listen on; 0 takes a free one.'),
  tls: tls.optional().describe('Serve HTTPS; without it, plain HTTP.'),
  maxConnections: count
    .prefault(10_000)
    .describe('Connections of callers at once; more are closed unanswered.'),
  maxBodyBytes: wholeNumber(1, 16_777_216).prefault(65_536).describe('Size of a form at most, in bytes.'),
  maxBufferedBytes: wholeNumber(1_048_576, 1_099_511_627_776)
    .prefault(67_108_864)
    .describe(
      'Bytes of forms and responses in memory at once. Requests beyond it are rejected as overloaded; responses beyond it are streamed.',
    ),
  maxParameters: count.prefault(1000).describe('Parameters of a form at most.'),
  timeouts: listenerTimeouts.prefault({}).describe('How long a caller may take.'),
  allowAnonymous: z
    .boolean()
    .default(false)
    .describe('Whether anonymous callers may be configured on an address beyond loopback.'),
});

const admin = z.strictObject({
  host: text.default('127.0.0.1').describe('Address to listen on.'),
  port: port.prefault(9090).describe('Port to listen on; 0 takes a free one.'),
  maxConnections: count
    .prefault(100)
    .describe('Connections at once; beyond it the oldest one without a request in flight is closed.'),
  allowedHosts: z
    .array(hostName)
    .default([])
    .describe(
      'Names in the Host header, besides IP addresses and localhost, under which /metrics is served.',
    ),
});

const signing = z.strictObject({
  concurrency: wholeNumber(1, 64)
    .prefault(3)
    .describe('RSA signatures at once; below the size of the libuv pool (4).'),
  maxQueue: count.prefault(200).describe('RSA signatures waiting; more are refused as overloaded.'),
});

/** The configuration file. Parsing gives {@link Config}; check.ts finds what one field alone cannot tell. */
export const configSchema = z.strictObject(
  {
    proxy: proxy.prefault({}).describe('Where services post their forms.'),
    admin: admin.prefault({}).describe('Where /metrics, /healthz and /readyz are.'),
    environments: environments.describe('The gateways, by name: the first path segment of a request.'),
    operations: operationOverrides.describe(
      'Further operations, or overrides of fields of the built-in ones.',
    ),
    keys: keys.describe('Where control keys and RSA private keys come from.'),
    signing: signing.prefault({}).describe('How much is signed at once.'),
    callers: z.array(caller).default([]).describe('Who may use Countersign, and for what.'),
    log: z
      .strictObject({
        level: z
          .enum(['debug', 'info', 'warn', 'error', 'silent'])
          .default('info')
          .describe('The least important line that is written.'),
      })
      .prefault({})
      .describe('The log: JSON lines on standard output.'),
  },
  {
    error: ({ code }) =>
      code === 'invalid_type' ? 'must be a mapping that holds at least environments and keys' : undefined,
  },
);

/** Parsed and defaulted: durations are milliseconds. */
export type Config = z.output<typeof configSchema>;
export type EnvironmentConfig = Config['environments'][string];
export type OperationOverride = z.output<typeof operationOverride>;
export type OperationConfig = z.output<typeof operation>;
export type CallerConfig = Config['callers'][number];
export type KeysConfig = Config['keys'];
export type CacheConfig = KeysConfig['cache'];
export type VaultConfig = z.output<typeof vault>;
