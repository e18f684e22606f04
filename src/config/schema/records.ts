import { z } from 'zod';
import { Secret } from '../../secret.ts';
import { httpUrl, isPlaintextRemote } from '../url.ts';
import {
  dictionary,
  egressProxy,
  filePath,
  flag,
  isFitForTunnel,
  minVersion,
  optionalFile,
} from './values.ts';

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

/** One field for both targets, so that they cannot contradict each other. */
export const standardOutput = '-';

export const audit = z
  .strictObject({
    file: filePath.describe(
      'File of the audit trail, one for each process. It is created, or continued after its last record. `-` writes to standard output, between the log lines.',
    ),
    keyFile: filePath.describe(
      'File with the key that seals the records: at least 32 bytes. Read again at SIGHUP.',
    ),
    required: flag.describe(
      'Send nothing to the gateway before its record is written; requests get 503 `audit-unavailable` while that is not possible.',
    ),
    sync: flag.describe(
      'Write records through to the disk (fdatasync), so that they also survive a power failure.',
    ),
  })
  .refine(({ file, sync }) => !sync || file !== standardOutput, {
    path: ['sync'],
    message: 'needs a file: standard output cannot be written through to a disk',
  });
