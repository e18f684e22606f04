import { z } from 'zod';
import { httpUrl } from '../url.ts';
import { operationOverrides } from './operation.ts';
import {
  count,
  dictionary,
  egressProxy,
  environmentName,
  flag,
  identifier,
  isFitForTunnel,
  matching,
  minVersion,
  optionalFile,
  timeout,
  tunnelRequiresHttps,
  withoutPrototype,
} from './values.ts';

const timeouts = z
  .strictObject({
    connect: timeout('3s').describe('Time to open a connection, with TLS.'),
    request: timeout('30s').describe('Time for a request, all attempts included.'),
  })
  // One that is not valid is like no other.
  .refine(({ connect, request }) => !(connect > request), {
    path: ['connect'],
    message: 'must not be longer than request, which would expire first',
  });

/** Connection-specific headers of RFC 9110 section 7.6.1, and those that Countersign sets. */
const ownHeaders =
  /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|content-length|x-request-id|countersign-.*)$/i;
const responseHeader = matching(/^[A-Za-z0-9-]+$/, 'must be a header name').refine(
  (name) => !ownHeaders.test(name),
  'must not be a connection-specific header or one that Countersign sets',
);

export const environment = z
  .strictObject({
    baseUrl: httpUrl.describe('The gateway: https://host[:port][/path].'),
    product: matching(/^[A-Za-z0-9_~-]{1,64}$/, 'must be one path segment such as gw').describe(
      'First path segment at the gateway, such as gw.',
    ),
    timeouts: timeouts.prefault({}).describe('Time limits for the gateway.'),
    keepAlive: z.boolean().default(true).describe('Reuse connections for read-only requests.'),
    connectionMaxAge: timeout('5m').describe('Age of a reused connection; new ones pick up DNS changes.'),
    maxInFlight: count.prefault(500).describe('Requests at once; excess ones get 503 `overloaded`.'),
    endpoints: dictionary(identifier, identifier)
      .prefault({})
      .describe('Login of each endpoint or endpoint group.'),
    operations: operationOverrides.describe('Further operations, or overrides, of this environment.'),
    responseHeaders: z
      .array(responseHeader.toLowerCase())
      .default([])
      .describe('Further headers of the gateway to forward.'),
    caFile: optionalFile.describe('CA of the gateway.'),
    certFile: optionalFile.describe('Client certificate for the gateway.'),
    keyFile: optionalFile.describe('Private key of certFile.'),
    minVersion,
    egressProxy,
    allowInsecureHttp: flag.describe('Allow an http: baseUrl beyond loopback.'),
  })
  .refine(
    ({ certFile, keyFile }) => (certFile === undefined) === (keyFile === undefined),
    'requires both certFile and keyFile, or neither',
  )
  .refine(({ baseUrl, certFile }) => isFitForTunnel(baseUrl, certFile), {
    path: ['baseUrl'],
    message: 'must use https, because there is a client certificate',
  })
  .refine(({ baseUrl, egressProxy }) => isFitForTunnel(baseUrl, egressProxy), {
    path: ['baseUrl'],
    message: tunnelRequiresHttps,
  });

export const environments = z
  .record(environmentName, environment)
  .refine((entries) => Object.keys(entries).length > 0, 'requires at least one environment')
  .overwrite(withoutPrototype);
