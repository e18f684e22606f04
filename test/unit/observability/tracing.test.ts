import type { ServerResponse } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace';
import { createRequestTracer, type ParentSpan } from '../../../src/observability/tracing/request-tracer.ts';
import { createTracing } from '../../../src/observability/tracing/tracing.ts';
import type { RequestContext } from '../../../src/request-context.ts';
import { Secret } from '../../../src/secret.ts';
import { inSpan, withSpan } from '../../../src/trace.ts';
import { harness } from '../../support/harness.ts';
import { partialSuccess, spansIn } from '../../support/otlp.ts';

const starts = harness();

const started = 1_000;

function start(sampleRatio = 1) {
  let now = started;
  const exporter = new InMemorySpanExporter();
  let reads = 0;
  // Set forward by an hour whenever it was read.
  const clock = (): number => Date.UTC(2026, 0, 15, 12) + now + 3_600_000 * reads++;
  const tracer = createRequestTracer(new SimpleSpanProcessor({ exporter }), {
    sampleRatio,
    version: '1.2.3',
    instance: 'pod-7',
    clock,
    monotonic: () => now,
  });
  const begin = (parent?: ParentSpan) => {
    const request = tracer({ parent, startedAt: started });
    if (request === undefined) throw new Error('not recorded');
    return request;
  };
  return {
    get spans() {
      return exporter.getFinishedSpans();
    },
    request: begin(),
    begin,
    pass: (milliseconds: number) => (now += milliseconds),
  };
}

const context: RequestContext = {
  id: '1f0c2f63-6e8b-4f0e-9c6b-0d1c5a2b7e11',
  startedAt: 0,
  attempts: 1,
  outcome: 'answered',
  durations: {},
  status: 200,
};

const milliseconds = ([seconds, nanos]: readonly [number, number]): number => seconds * 1_000 + nanos / 1e6;

describe('the span of a request', () => {
  it('has the times of the monotonic clock, from one origin', async () => {
    const { spans, request, pass } = start();
    pass(5);
    await withSpan(request, () => inSpan('signature', async () => void pass(2.5)));
    pass(1);
    request.finish(context);
    const [step, root] = spans;
    const from = Date.UTC(2026, 0, 15, 12) + started;
    expect([root?.startTime, root?.endTime].map((time) => milliseconds(time ?? [0, 0]) - from)).toEqual([
      0, 8.5,
    ]);
    expect([step?.startTime, step?.endTime].map((time) => milliseconds(time ?? [0, 0]) - from)).toEqual([
      5, 7.5,
    ]);
    expect(step?.parentSpanContext?.spanId).toBe(root?.spanContext().spanId);
  });

  it.each([
    [0, 0, 0],
    [0.5, 400, 600],
    [1, 1_000, 1_000],
  ])('is recorded for the part %d of the trace IDs', (sampleRatio, least, most) => {
    const processor = new SimpleSpanProcessor({ exporter: new InMemorySpanExporter() });
    const clock = () => 0;
    const options = { sampleRatio, version: '1', instance: 'pod', clock, monotonic: clock };
    const tracer = createRequestTracer(processor, options);
    const requests = Array.from({ length: 1_000 }, () => tracer({ parent: undefined, startedAt: 0 }));
    const recorded = requests.filter((request) => request !== undefined).length;
    // Outside of 400 to 600 once in 10 billion runs.
    expect([recorded >= least, recorded <= most]).toEqual([true, true]);
  });

  it('belongs to the trace of the caller, the next request without one to a new trace', () => {
    const { begin } = start();
    const parent = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16) };
    const [first, other] = [begin(parent), begin()];
    expect(first.traceId).toBe('a'.repeat(32));
    expect(other.traceId).toMatch(/^(?!a{32})[0-9a-f]{32}$/);
  });

  it('has no further steps once the request is over', async () => {
    const { spans, request } = start();
    await withSpan(request, async () => {
      request.finish(context);
      // As a timer that the request started.
      await inSpan('key source read', async () => {});
    });
    expect(spans).toHaveLength(1);
  });

  it('has at most 127 steps', async () => {
    const { spans, request } = start();
    const work = async (): Promise<void> => {};
    await withSpan(request, async () => {
      for (let count = 0; count < 200; count += 1) await inSpan('upstream request', work);
    });
    request.finish(context);
    expect(spans).toHaveLength(128);
  });

  it.each([
    [{ status: 200 }, undefined],
    [{ status: 403 }, undefined],
    [{ status: 503, reason: 'overloaded' as const, outcome: 'not-sent' as const }, 'overloaded'],
    [{ status: 502 }, '502'],
    [{ status: undefined }, 'no-response'],
  ])('is an error only for a server: %j', (result, type) => {
    const { spans, request } = start();
    const { status, ...more } = result;
    const { status: _status, ...rest } = context;
    request.finish({ ...rest, ...more, ...(status === undefined ? {} : { status }) });
    expect(spans[0]?.attributes['error.type']).toBe(type);
    expect(spans[0]?.status.code).toBe(type === undefined ? 0 : 2);
  });

  it('cuts texts that are too long, and leaves out what is not known', () => {
    const { spans, request } = start();
    request.finish({ ...context, login: 'x'.repeat(1_000) });
    expect(spans[0]?.attributes['countersign.login']).toBe('x'.repeat(256));
    expect(spans[0]?.attributes).not.toHaveProperty(['countersign.caller']);
    expect(spans[0]?.resource.attributes).toEqual({
      'service.name': 'countersign',
      'service.version': '1.2.3',
      'service.instance.id': 'pod-7',
    });
  });

  it('of work that fails has the kind of the error, never its message', async () => {
    const { spans, request } = start();
    const fail = (error: Error) => () =>
      inSpan('signature', async () => {
        throw error;
      });
    const errors = [
      Object.assign(new Error('card 4111111111111111'), { reason: 'gateway-reset' }),
      Object.assign(new Error('card 4111111111111111'), { kind: '4111 1111 1111 1111' }),
    ];
    for (const error of errors) await expect(withSpan(request, fail(error))).rejects.toBe(error);
    expect(spans.map(({ attributes }) => attributes['error.type'])).toEqual(['gateway-reset', 'internal']);
    expect(JSON.stringify(spans.map(({ attributes, events }) => [attributes, events]))).not.toContain('4111');
  });
});

describe('spans', () => {
  /** Sends one span, and stops. */
  async function send(otlp: string, more: { caFile?: string; headers?: Record<string, Secret> } = {}) {
    const [counts, lines]: [unknown[], unknown[]] = [[], []];
    const tracing = createTracing({
      log: { message: (level, text, fields) => void lines.push([level, text, fields?.['cause']]) },
      metrics: { spansCounted: (result, count) => void counts.push([result, count]) },
      version: '1',
      instance: 'pod',
      clock: Date.now,
      monotonic: () => performance.now(),
    });
    (await tracing.prepare({ otlp, sampleRatio: 1, headers: {}, ...more }))();
    tracing.begin({ parent: undefined, startedAt: 0 })?.finish(context);
    await tracing.stop(2_000);
    return { counts, lines };
  }

  async function receiverThat(respond: (response: ServerResponse) => unknown) {
    const receiver = await starts.recordingGateway();
    receiver.respond = (response) => void respond(response);
    return receiver;
  }

  it.each([
    ['', '/v1/traces'],
    ['/otlp/v1/traces', '/otlp/v1/traces'],
  ])('are sent when the process stops, to the path of the configuration: %j', async (path, target) => {
    const receiver = await receiverThat((response) => response.end());
    const headers = { Authorization: new Secret('Basic c2VjcmV0') };
    expect(await send(receiver.url + path, { headers })).toEqual({ counts: [['exported', 1]], lines: [] });
    expect(receiver.requests).toMatchObject([
      {
        method: 'POST',
        target,
        headers: { 'content-type': 'application/x-protobuf', authorization: 'Basic c2VjcmV0' },
      },
    ]);
    expect(receiver.requests.flatMap(spansIn)).toHaveLength(1);
  });

  const noOtlp = 'the response is not one of OTLP';
  it.each<[string, (response: ServerResponse) => unknown, string]>([
    ['does not know the path', (response) => response.writeHead(404).end(), 'status 404 instead of 200'],
    [
      'redirects',
      (response) => response.writeHead(307, { Location: '/other' }).end(),
      'status 307 instead of 200',
    ],
    [
      'rejects a number of spans that is none',
      (response) => response.end(Buffer.from(`0a970108${'80'.repeat(149)}00`, 'hex')),
      noOtlp,
    ],
  ])(
    'are dropped, counted and logged, and not sent again, if the receiver %s',
    async (_what, respond, cause) => {
      const receiver = await receiverThat(respond);
      expect(await send(receiver.url)).toEqual({
        counts: [['dropped', 1]],
        lines: [['error', 'traces are not delivered', cause]],
      });
      expect(receiver.requests).toHaveLength(1);
    },
  );

  it('that the receiver rejects are counted apart', async () => {
    const receiver = await receiverThat((response) => response.end(partialSuccess(1, 'no')));
    const counts = [
      ['exported', 0],
      ['rejected', 1],
    ];
    expect(await send(receiver.url)).toEqual({ counts, lines: [] });
  });

  it('are dropped if the CA file cannot be read, which is named', async () => {
    const { lines } = await send('https://127.0.0.1:9', { caFile: '/nowhere/ca.pem' });
    expect(lines).toEqual([['error', 'traces are not delivered', '/nowhere/ca.pem: does not exist']]);
  });
});
