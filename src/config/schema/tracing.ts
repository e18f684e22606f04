import { z } from 'zod';
import { Secret } from '../../secret.ts';
import { httpUrl, isPlaintextRemote } from '../url.ts';
import { egressProxy, isFitForTunnel } from './egress-proxy.ts';
import { dictionary, filePath, minVersion } from './values.ts';

const maxHeaders = 20;

/** Those that every export has; set ones would contradict them. */
const ownHeaders = /^(content-.*|transfer-encoding|host|connection|expect|upgrade|te|trailer)$/i;

const headerName = z
  .string()
  .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/, 'must have names of HTTP headers')
  .refine((name) => !ownHeaders.test(name), 'must not have a header that belongs to the export itself');

const headerValue = z
  .string()
  .max(8192)
  .regex(/^[\x20-\x7e]+$/, 'must have values of printable ASCII')
  .transform((value) => new Secret(value));

const fraction = z.preprocess(
  (value) => (typeof value === 'string' && /^\d(\.\d{1,9})?$/.test(value) ? Number(value) : value),
  z.number().min(0).max(1),
);

/** Traces of requests, sent to an OpenTelemetry collector. */
export const tracing = z
  .strictObject({
    otlp: httpUrl.describe(
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
    caFile: filePath
      .optional()
      .describe('PEM file of the CA that signed the certificate of the receiver. Read for each export.'),
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
