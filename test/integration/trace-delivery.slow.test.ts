import { describe, expect, it } from '@jest/globals';
import { closedPort, silent } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
import { spansIn } from '../support/otlp.ts';
import type { TestProxy } from '../support/service.ts';
import { startReceiver, tracingTo } from '../support/traced.ts';
import { until } from '../support/until.ts';

const starts = harness();

const failed = 'traces are not delivered';
/** Spans of a balance query whose keys are cached. */
const perQuery = 4;
/** Enough for one batch. */
const queries = 64;

async function startWith(otlp: string): Promise<TestProxy> {
  const proxy = await starts.edge({ config: { tracing: { otlp, sampleRatio: 1 } } });
  await proxy.balance();
  return proxy;
}

async function query(proxy: TestProxy, count = queries): Promise<void> {
  for (let sent = 0; sent < count; sent += 16) {
    await Promise.all(Array.from({ length: Math.min(16, count - sent) }, () => proxy.balance()));
  }
}

const counted = (proxy: TestProxy, result: string): Promise<number> =>
  proxy.counted('spans_total', { result });

async function stopsInTime(proxy: TestProxy): Promise<void> {
  const startedAt = performance.now();
  await proxy.stop();
  expect(performance.now() - startedAt).toBeLessThan(6_000);
}

describe('spans are delivered', () => {
  it('in batches, within seconds, as what the receiver expects', async () => {
    const receiver = await startReceiver(starts);
    const proxy = await startWith(receiver.url);
    await query(proxy);
    await until(() => receiver.requests.length > 0);
    await proxy.stop();
    const received = receiver.requests.flatMap(spansIn);
    expect(received).toHaveLength((queries + 1) * perQuery + 1);
    expect(receiver.requests.length).toBeLessThan(8);
  });
});

describe('spans are dropped, and no request fails, if the receiver', () => {
  it('is down: after the queue is full the others are dropped, and the stop takes no longer', async () => {
    const proxy = await startWith(`http://127.0.0.1:${closedPort}`);
    // Two batches that are sent or wait for another attempt, and the queue.
    await query(proxy, (2_048 + 3 * 256) / perQuery);
    expect(await counted(proxy, 'dropped')).toBeGreaterThan(0);
    await until(() => proxy.logLines(failed).length > 0);
    expect(proxy.logLines(failed)).toMatchObject([{ cause: 'connection refused: ECONNREFUSED' }]);
    await stopsInTime(proxy);
  });

  it('hangs: the process waits for two seconds when it stops, and ends', async () => {
    const receiver = await starts.gateway([silent]);
    const gateway = await starts.recordingGateway();
    const config = { tracing: { otlp: receiver.url, sampleRatio: 1 } };
    const process = await starts.process({ gateway: gateway.url, config });
    expect((await process.balance()).status).toBe(200);
    const startedAt = performance.now();
    expect(await process.stop()).toBe(0);
    const took = performance.now() - startedAt;
    expect(took).toBeGreaterThan(1_500);
    expect(took).toBeLessThan(6_000);
    expect(receiver.connections()).toBeGreaterThan(0);
  });
});

it('variables of OpenTelemetry have no influence', async () => {
  const [receiver, other] = [await startReceiver(starts), await startReceiver(starts)];
  const env = {
    OTEL_SDK_DISABLED: 'true',
    OTEL_TRACES_SAMPLER: 'always_off',
    OTEL_EXPORTER_OTLP_ENDPOINT: other.url,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: other.url,
    OTEL_EXPORTER_OTLP_HEADERS: 'x-from=environment',
    OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'x-from=environment',
    OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
    OTEL_EXPORTER_OTLP_TIMEOUT: '1',
    OTEL_EXPORTER_OTLP_CERTIFICATE: '/nowhere/ca.pem',
    OTEL_BSP_MAX_QUEUE_SIZE: '1',
    OTEL_SERVICE_NAME: 'another',
    OTEL_RESOURCE_ATTRIBUTES: 'secret=42',
    OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT: '1',
  };
  const gateway = await starts.recordingGateway();
  const process = await starts.process({
    gateway: gateway.url,
    config: { tracing: tracingTo(receiver) },
    env,
  });
  expect((await process.balance()).status).toBe(200);
  await process.stop();
  expect(other.requests).toEqual([]);
  expect(receiver.requests[0]?.headers).not.toHaveProperty('x-from');
  const [span] = receiver.requests.flatMap(spansIn);
  expect(span?.resource).toMatchObject({ 'service.name': 'countersign' });
  expect(Object.keys(span?.resource ?? {}).sort()).toEqual([
    'service.instance.id',
    'service.name',
    'service.version',
  ]);
  expect(span?.attributes['countersign.key.source']).toBe('directory');
});

it('the SDK is loaded only if tracing is configured', async () => {
  const hook = `data:text/javascript,${encodeURIComponent(
    "import { registerHooks } from 'node:module'; registerHooks({ load(url, context, next) { if (/@opentelemetry.(?!api)/.test(url)) process.stderr.write('loads ' + url); return next(url, context); } });",
  )}`;
  const nodeOptions = ['--import', hook];
  const without = await starts.process({ nodeOptions });
  await without.stop();
  expect(without.stderr()).not.toContain('loads ');
  const receiver = await startReceiver(starts);
  const traced = await starts.process({ nodeOptions, config: { tracing: tracingTo(receiver) } });
  await traced.stop();
  expect(traced.stderr()).toContain('loads ');
});
