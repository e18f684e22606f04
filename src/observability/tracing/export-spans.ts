import { createOtlpHttpExportDelegate } from '@opentelemetry/otlp-exporter-base/node-http';
import {
  type IExportTraceServiceResponse,
  ProtobufTraceSerializer,
  TraceExporterMetricsHelper,
} from '@opentelemetry/otlp-transformer';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import { errorCode } from '../../errors.ts';
import { agentFor, type ServerAccess } from '../../net/agent.ts';
import { ConnectionError, describeNetworkFailure } from '../../net/network-failure.ts';
import { reveal, type Secret } from '../../secret.ts';

/** Milliseconds for one export, with its repetitions. */
const timeoutMillis = 10_000;

/** Where spans are sent to: `tracing` of the configuration. */
export interface ReceiverSettings extends ServerAccess {
  /** Without a path, `/v1/traces` is added. */
  readonly otlp: string;
  readonly headers: Readonly<Record<string, Secret>>;
}

/** @returns how many of the spans the receiver rejected. @throws Error with a message for operators */
export type ExportSpans = (spans: ReadableSpan[]) => Promise<number>;

/**
 * The OTLP exporter of OpenTelemetry over HTTP with protobuf, without its class: that would add the headers of
 * `OTEL_EXPORTER_OTLP_HEADERS`. Each export has its own, since the CA file is read for each.
 */
export function createExportSpans({ otlp, headers, ...access }: ReceiverSettings): ExportSpans {
  const url = new URL(otlp);
  if (url.pathname === '/') url.pathname = '/v1/traces';
  const fields = Object.entries(headers).map(([name, value]) => [name, reveal(value)] as const);
  const settings = {
    url: url.href,
    headers: async () => ({ ...Object.fromEntries(fields), 'Content-Type': 'application/x-protobuf' }),
    timeoutMillis,
    concurrencyLimit: 1,
    compression: 'none' as const,
    agentFactory: () => agentFor(url, access),
  };
  return (spans) => {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    let response: IExportTraceServiceResponse | undefined;
    const serializer = {
      serializeRequest: (batch: ReadableSpan[]) => ProtobufTraceSerializer.serializeRequest(batch),
      deserializeResponse: (bytes: Uint8Array) => {
        response = ProtobufTraceSerializer.deserializeResponse(bytes);
        return response;
      },
    };
    createOtlpHttpExportDelegate(
      settings,
      serializer,
      'otlp_http_span_exporter',
      TraceExporterMetricsHelper,
      undefined,
    ).export(spans, ({ error }) => {
      const rejected = response && (response.partialSuccess?.rejectedSpans ?? 0);
      if (error !== undefined) reject(new Error(causeOf(error)));
      // The decoder makes NaN or Infinity of a number that is too long.
      else if (!Number.isSafeInteger(rejected)) reject(new Error('the response is not one of OTLP'));
      else resolve(Math.min(Math.max(Number(rejected), 0), spans.length));
    });
    return promise;
  };
}

/** Without what the receiver sent. */
function causeOf(error: Error): string {
  if (error.name === 'OTLPExporterError') {
    const status = 'code' in error ? error.code : undefined;
    return `status ${typeof status === 'number' ? status : '429, 502, 503 or 504'} instead of 200`;
  }
  const isNetworkFailure = error instanceof ConnectionError || errorCode(error) !== undefined;
  return isNetworkFailure ? describeNetworkFailure(error) : error.message;
}
