import { join } from 'node:path';
import protobuf from 'protobufjs';
import type { Recorded } from './recording-gateway.ts';

/** The definitions as published (opentelemetry-proto, Apache-2.0). */
const root = new protobuf.Root();
const folder = join(import.meta.dirname, 'otlp');
root.resolvePath = (_origin, target) => join(folder, target);
root.loadSync('opentelemetry/proto/collector/trace/v1/trace_service.proto', { keepCase: false });
const service = 'opentelemetry.proto.collector.trace.v1';
const exportRequest = root.lookupType(`${service}.ExportTraceServiceRequest`);
const exportResponse = root.lookupType(`${service}.ExportTraceServiceResponse`);

/** A span as a receiver gets it. */
export interface ReceivedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the root of a trace. */
  readonly parentSpanId: string;
  readonly kind: string;
  /** Nanoseconds since 1970. */
  readonly start: bigint;
  readonly end: bigint;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly resource: Readonly<Record<string, unknown>>;
  readonly events: readonly string[];
  readonly isError: boolean;
}

/** The spans of one export. @throws Error unless it is a request of OTLP over HTTP with protobuf */
export function spansIn({ method, headers, body }: Recorded): readonly ReceivedSpan[] {
  if (method !== 'POST' || headers['content-type'] !== 'application/x-protobuf') {
    throw new Error(`not an export: ${method} ${headers['content-type']}`);
  }
  const decoded = exportRequest.toObject(exportRequest.decode(body), {
    longs: String,
    enums: String,
    bytes: Array,
    defaults: true,
  });
  return records(decoded['resourceSpans']).flatMap(({ resource, scopeSpans }) =>
    records(scopeSpans).flatMap(({ spans }) =>
      records(spans).map((span) => spanOf(span, attributesOf(record(resource)['attributes']))),
    ),
  );
}

/** The body of a response that rejects so many of the spans. */
export function partialSuccess(rejectedSpans: number, errorMessage: string): Uint8Array {
  return exportResponse.encode({ partialSuccess: { rejectedSpans, errorMessage } }).finish();
}

/** The spans of a trace as an indented tree in the order of their beginning, with selected attributes. */
export function treeOf(spans: readonly ReceivedSpan[], attributes: readonly string[] = []): string {
  const inOrder = spans.toSorted((a, b) => Number(a.start - b.start));
  const known = new Set(spans.map(({ spanId }) => spanId));
  const lines = (parent: ReceivedSpan | undefined, indent: string): string[] =>
    inOrder
      .filter(({ parentSpanId }) =>
        parent === undefined ? !known.has(parentSpanId) : parentSpanId === parent.spanId,
      )
      .flatMap((span) => {
        const shown = attributes.flatMap((name) => {
          const value = span.attributes[name];
          return value === undefined ? [] : [`${name.replace(/^.*\./, '')}=${text(value)}`];
        });
        return [[`${indent}${span.name}`, ...shown].join(' '), ...lines(span, `${indent}  `)];
      });
  return lines(undefined, '').join('\n');
}

/** Attributes are plain values. */
function text(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function spanOf(span: Record<string, unknown>, resource: ReceivedSpan['resource']): ReceivedSpan {
  return {
    name: String(span['name']),
    traceId: hex(span['traceId']),
    spanId: hex(span['spanId']),
    parentSpanId: hex(span['parentSpanId']),
    kind: String(span['kind']),
    start: BigInt(String(span['startTimeUnixNano'])),
    end: BigInt(String(span['endTimeUnixNano'])),
    attributes: attributesOf(span['attributes']),
    resource,
    events: records(span['events']).map(({ name }) => String(name)),
    isError: record(span['status'])['code'] === 'STATUS_CODE_ERROR',
  };
}

function attributesOf(list: unknown): Record<string, unknown> {
  return Object.fromEntries(
    records(list).map(({ key, value }) => {
      const { value: which, ...values } = record(value);
      void which;
      const [kind = ''] = Object.keys(values).filter((name) => name.endsWith('Value'));
      const plain = values[kind];
      return [String(key), kind === 'intValue' ? Number(plain) : plain];
    }),
  );
}

function hex(bytes: unknown): string {
  return Array.isArray(bytes) ? Buffer.from(bytes).toString('hex') : '';
}

function records(list: unknown): Record<string, unknown>[] {
  return Array.isArray(list) ? list.map(record) : [];
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
