import {
  type Context,
  type Span as RecordedSpan,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { type SpanProcessor, TraceIdRatioBasedSampler, TracerProvider } from '@opentelemetry/sdk-trace';
import type { RequestContext } from '../../request-context.ts';
import type { Span, SpanAttributes, SpanName } from '../../trace.ts';
import type { MonotonicClock, WallClock } from '../../util/clock.ts';

/** Steps of one request. More are not recorded. */
const maxSpans = 128;
const maxTextLength = 256;

/** Steps in which a request is sent to another server. */
const clientSpans: ReadonlySet<SpanName> = new Set(['upstream request', 'Vault request']);

interface RequestTracerOptions extends WallClock, MonotonicClock {
  /** From 0 to 1. */
  readonly sampleRatio: number;
  readonly version: string;
  /** Distinguishes the instances: the host name. */
  readonly instance: string;
}

export interface RequestStart {
  /** From the `traceparent` of a known caller. */
  readonly parent: ParentSpan | undefined;
  /** When its headers had been received; monotonic, milliseconds. */
  readonly startedAt: number;
}

/** The span of the client that sent a request (W3C Trace Context). */
export interface ParentSpan {
  /** 32 lowercase hex digits. */
  readonly traceId: string;
  /** 16 lowercase hex digits. */
  readonly spanId: string;
}

/** The span of a request that is recorded. */
export interface RequestSpan extends Span {
  readonly traceId: string;
  /** @param route with the placeholders of its path, not the values */
  routed(route: string): void;
  /** Ends it. */
  finish(context: RequestContext): void;
}

/** Starts the span of a request. `undefined`: its trace is not recorded. */
export type RequestTracer = (start: RequestStart) => RequestSpan | undefined;

/**
 * Records the traces of requests with the OpenTelemetry SDK. Everything is passed to it: no variable of the environment has
 * an influence. Whether a trace is recorded depends on its ID alone, so that services with the same ratio record the same
 * ones, and a caller's sampled flag has no influence.
 */
export function createRequestTracer(processor: SpanProcessor, options: RequestTracerOptions): RequestTracer {
  const { sampleRatio, version, instance } = options;
  const provider = new TracerProvider({
    sampler: new TraceIdRatioBasedSampler(sampleRatio),
    spanProcessors: [processor],
    spanLimits: { attributeValueLengthLimit: maxTextLength },
    resource: resourceFromAttributes({
      'service.name': 'countersign',
      'service.version': version,
      'service.instance.id': instance,
    }),
  });
  const tracer = provider.getTracer('countersign', version);
  return ({ parent, startedAt }) => {
    const { clock, monotonic } = options;
    const context = contextOf(parent);
    // All times of a trace have one origin, so that a clock that is set meanwhile does not tear it apart.
    const origin = clock() - monotonic();
    const startTime = origin + startedAt;
    const span = tracer.startSpan('POST', { kind: SpanKind.SERVER, startTime }, context);
    if (!span.isRecording()) return undefined;
    const recording = { tracer, spans: 1, over: false, now: () => origin + monotonic() };
    return new RequestStep(span, recording);
  };
}

function contextOf(parent: ParentSpan | undefined): Context {
  if (parent === undefined) return ROOT_CONTEXT;
  const { traceId, spanId } = parent;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: TraceFlags.NONE, isRemote: true });
}

/** What the steps of one request share. */
interface Recording {
  readonly tracer: Tracer;
  spans: number;
  over: boolean;
  /** Milliseconds since 1970, with fractions. */
  readonly now: () => number;
}

class Step implements Span {
  protected readonly span: RecordedSpan;
  protected readonly recording: Recording;
  readonly #context: Context;

  constructor(span: RecordedSpan, recording: Recording) {
    this.span = span;
    this.recording = recording;
    this.#context = trace.setSpan(ROOT_CONTEXT, span);
  }

  begin(name: SpanName): Span | undefined {
    const { recording } = this;
    if (recording.over || recording.spans >= maxSpans) return undefined;
    recording.spans += 1;
    const kind = clientSpans.has(name) ? SpanKind.CLIENT : SpanKind.INTERNAL;
    const startTime = recording.now();
    const span = recording.tracer.startSpan(name, { kind, startTime }, this.#context);
    return new Step(span, recording);
  }

  add(attributes: SpanAttributes): void {
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== undefined) this.span.setAttribute(name, value);
    }
  }

  mark(event: string): void {
    this.span.addEvent(event, undefined, this.recording.now());
  }

  fail(errorType: string): void {
    this.span.setAttribute('error.type', errorType).setStatus({ code: SpanStatusCode.ERROR });
  }

  end(): void {
    this.span.end(this.recording.now());
  }
}

class RequestStep extends Step implements RequestSpan {
  get traceId(): string {
    return this.span.spanContext().traceId;
  }

  routed(route: string): void {
    this.span.updateName(`POST ${route}`);
    this.add({ 'http.route': route });
  }

  finish(context: RequestContext): void {
    this.recording.over = true;
    const { status, reason } = context;
    this.add({
      'http.request.method': 'POST',
      'http.response.status_code': status,
      'countersign.request.id': context.id,
      'countersign.caller': context.caller,
      'countersign.environment': context.environment,
      'countersign.operation': context.operation,
      'countersign.login': context.login,
      'countersign.outcome': context.outcome,
      'countersign.reason': reason,
      'countersign.rejection': context.rejection,
      'countersign.attempts': context.attempts,
      'countersign.key.kind': context.keyKind,
      'countersign.key.version': context.keyVersion,
    });
    // Semantic conventions for HTTP servers: a 4xx is no error of the server.
    if (status === undefined || status >= 500) this.fail(reason ?? String(status ?? 'no-response'));
    this.end();
  }
}
