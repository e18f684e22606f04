import { z } from 'zod';
import { webAddress } from '../url.ts';
import { operationOverrides } from './operation.ts';
import {
  count,
  deadline,
  dictionary,
  environmentName,
  filePath,
  identifier,
  withoutPrototype,
} from './values.ts';

const timeouts = z
  .strictObject({
    connect: deadline('3s').describe('From the first packet to an open connection, TLS included.'),
    request: deadline('30s').describe('The whole upstream request, every attempt included.'),
  })
  .refine(({ connect, request }) => connect <= request, {
    path: ['connect'],
    message: 'must not be longer than request, which would end first',
  });

/** Names of RFC 9110 section 7.6.1 that belong to one connection, and those Countersign answers with itself. */
const ownHeaders =
  /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|x-request-id|countersign-.*)$/i;
const responseHeader = z
  .string()
  .regex(/^[A-Za-z0-9-]+$/, 'must be a header name')
  .refine((name) => !ownHeaders.test(name), 'must not be a header that Countersign or HTTP itself sets');

export const environment = z.strictObject({
  baseUrl: webAddress.describe('Address of the gateway: https://host[:port][/path].'),
  product: z
    .string()
    .regex(/^[A-Za-z0-9_~-]{1,64}$/, 'must be one path segment such as gw')
    .describe('First path segment of the gateway, "gw" in its interface.'),
  timeouts: timeouts.prefault({}).describe('How long the gateway may take.'),
  keepAlive: z
    .boolean()
    .default(true)
    .describe('Reuse connections for read-only requests; false: a new connection for each request.'),
  connectionMaxAge: deadline('5m').describe(
    'Maximum age of a pooled connection; a new one follows a change of the DNS entry.',
  ),
  maxInFlight: count.prefault(500).describe('Exchanges at once; more are refused as overloaded.'),
  endpoints: dictionary(identifier, identifier)
    .prefault({})
    .describe('Endpoint or endpoint group id -> the login that uses it.'),
  canaryEndpoint: identifier
    .optional()
    .describe(
      'Endpoint id for the canary of RSA keys (keys.rotation.canary) of logins without an entry in endpoints.',
    ),
  operations: operationOverrides.describe('Overrides of operations, or further ones, for this environment.'),
  responseHeaders: z
    .array(responseHeader)
    .default([])
    .describe('Headers of the gateway that are given back besides the usual ones.'),
  caFile: filePath.optional().describe('PEM file of the CA that signed the gateway certificate.'),
  allowInsecureHttp: z.boolean().default(false).describe('Whether baseUrl may be http: beyond this machine.'),
});

export const environments = z
  .record(environmentName, environment)
  .refine((entries) => Object.keys(entries).length > 0, 'needs at least one environment')
  .transform(withoutPrototype);
