import type { ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import { describe, expect, it } from '@jest/globals';
import { closedPort, silent, switching } from '../support/faulty-gateway.ts';

import { harness } from '../support/harness.ts';
import { listen } from '../support/listening.ts';
import { partialSuccess, spansIn } from '../support/otlp.ts';
import type { RecordingGateway } from '../support/recording-gateway.ts';
import { describeWith } from '../support/requires.ts';
import type { TestProxy } from '../support/service.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { startReceiver, tracingTo } from '../support/traced.ts';
import { until } from '../support/until.ts';

const starts = harness();

const failed = 'traces are not delivered';
/** Spans of a balance query whose keys are cached. */
const perQuery = 4;
/** Enough for one batch. */
const queries = 64;

async function startWith(otlp: string, more: object = {}): Promise<TestProxy> {
  const tracing = { otlp, sampleRatio: 1, ...more };
  const proxy = await starts.edge({ config: { tracing } });
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

async function startReceiverThat(respond: (response: ServerResponse) => unknown): Promise<RecordingGateway> {
  const receiver = await startReceiver(starts);
  receiver.respond = (response) => void respond(response);
  return receiver;
}

describe('spans are delivered', () => {
  it('in batches, within seconds, as what the receiver expects', async () => {
    const receiver = await startReceiver(starts);
    const proxy = await startWith(receiver.url);
    await query(proxy);
    await until(() => receiver.requests.length > 0);
    const [{ method, target, headers } = { method: '', target: '', headers: {} }] = receiver.requests;
    expect(`${method} ${target}`).toBe('POST /v1/traces');
    expect(headers).toMatchObject({ 'content-type': 'application/x-protobuf' });
    await proxy.stop();
    const received = receiver.requests.flatMap(spansIn);
    expect(received).toHaveLength((queries + 1) * perQuery + 1);
    expect(receiver.requests.length).toBeLessThan(8);
  });

  it('at a path and with headers of the configuration, which the log does not show', async () => {
    const receiver = await startReceiver(starts);
    const secret = 'Basic c2VjcmV0LW9mLXRoZS1jb2xsZWN0b3I=';
    const proxy = await startWith(`${receiver.url}/otlp/v1/traces`, { headers: { Authorization: secret } });
    await proxy.stop();
    expect(receiver.requests).toMatchObject([
      { target: '/otlp/v1/traces', headers: { authorization: secret } },
    ]);
    expect(proxy.seen()).not.toContain('c2VjcmV0');
  });

  it('at the stop, by which time the listener is closed', async () => {
    const receiver = await startReceiver(starts);
    const proxy = await startWith(receiver.url);
    expect(receiver.requests).toEqual([]);
    await proxy.stop();
    expect(receiver.requests.flatMap(spansIn)).toHaveLength(perQuery + 1);
  });

  it('to another receiver after a reload, with another ratio, and to none when tracing is removed', async () => {
    const [first, second] = [await startReceiver(starts), await startReceiver(starts)];
    const proxy = await startWith(first.url);
    await proxy.reload({ tracing: tracingTo(second) });
    await query(proxy, 1);
    await proxy.reload({});
    await until(() => second.requests.length > 0);
    expect(second.requests.flatMap(spansIn)).toHaveLength(perQuery + 1 + perQuery);
    await query(proxy, 1);
    await proxy.reload({ tracing: { otlp: first.url, sampleRatio: 0 } });
    await query(proxy, 1);
    await proxy.stop();
    expect(first.requests).toEqual([]);
    expect(second.requests).toHaveLength(1);
  });

  it('at the stop also those from before tracing was switched off', async () => {
    const receiver = await startReceiverThat((response) => setTimeout(() => response.end(), 400));
    const proxy = await startWith(receiver.url);
    await proxy.reload({});
    const startedAt = performance.now();
    await proxy.stop();
    expect(performance.now() - startedAt).toBeGreaterThan(300);
    expect(receiver.requests.flatMap(spansIn)).toHaveLength(perQuery + 1);
    expect(proxy.logLines(failed)).toEqual([]);
  });

  it('after a failure that passes', async () => {
    let failures = 1;
    const receiver = await startReceiverThat((response) => {
      response.statusCode = failures > 0 ? 503 : 200;
      failures -= 1;
      response.end();
    });
    const proxy = await startWith(receiver.url);
    await query(proxy);
    await until(async () => (await counted(proxy, 'exported')) > 0);
    const [first, second] = receiver.requests;
    expect(second?.body).toEqual(first?.body);
    expect(proxy.logLines(failed)).toEqual([]);
    expect(await counted(proxy, 'dropped')).toBe(0);
  });
});

describe('spans are dropped, counted and logged, and no request fails, if the receiver', () => {
  it.each<[string, (response: ServerResponse) => unknown, string]>([
    ['does not know the path', (response) => response.writeHead(404).end(), 'status 404 instead of 200'],
    [
      'does not accept the credentials',
      (response) => response.writeHead(401).end(),
      'status 401 instead of 200',
    ],
    [
      'redirects',
      (response) => response.writeHead(307, { Location: '/other' }).end(),
      'status 307 instead of 200',
    ],
    [
      'sends something else',
      (response) => response.end('<html>welcome</html>'),
      'the response is not one of OTLP',
    ],
    [
      'rejects a number of spans that is none',
      (response) => response.end(Buffer.from(`0a970108${'80'.repeat(149)}00`, 'hex')),
      'the response is not one of OTLP',
    ],
  ])('%s', async (_what, respond, cause) => {
    const receiver = await startReceiverThat(respond);
    const proxy = await startWith(receiver.url);
    await query(proxy);
    await until(async () => (await counted(proxy, 'dropped')) > 0);
    expect(proxy.logLines(failed)).toMatchObject([{ source: 'tracing', cause }]);
    // Not sent again: it would be rejected again, or the receiver may have it.
    expect(receiver.requests.length).toBe(1);
    expect(await counted(proxy, 'exported')).toBe(0);
    expect(new Set((await proxy.requestLines()).map(({ status }) => status))).toEqual(new Set([200]));
  });

  it('rejects some of them, which are counted apart', async () => {
    const receiver = await startReceiverThat((response) => response.end(partialSuccess(7, 'no')));
    const proxy = await startWith(receiver.url);
    await query(proxy);
    await until(async () => (await counted(proxy, 'rejected')) > 0);
    expect(await counted(proxy, 'rejected')).toBe(7);
    expect(await counted(proxy, 'exported')).toBe(256 - 7);
  });

  it('is down: after the queue is full the others are dropped, and the stop takes no longer', async () => {
    const proxy = await startWith(`http://127.0.0.1:${closedPort}`);
    // Two batches that are sent or wait for another attempt, and the queue.
    await query(proxy, (2_048 + 3 * 256) / perQuery);
    expect(await counted(proxy, 'dropped')).toBeGreaterThan(0);
    await until(() => proxy.logLines(failed).length > 0);
    expect(proxy.logLines(failed)).toMatchObject([{ cause: 'connection refused: ECONNREFUSED' }]);
    const startedAt = performance.now();
    await proxy.stop();
    expect(performance.now() - startedAt).toBeLessThan(6_000);
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

  it('switches protocols: that is a failure too, and the stop is not held up', async () => {
    const receiver = await starts.gateway([switching]);
    const proxy = await startWith(receiver.url);
    await query(proxy);
    await until(() => proxy.logLines(failed).length > 0);
    const startedAt = performance.now();
    await proxy.stop();
    expect(performance.now() - startedAt).toBeLessThan(6_000);
  });

  it('closes the connection, or sends no HTTP', async () => {
    const receiver = await starts.gateway([({ end }) => end('x\r\n\r\n')]);
    const proxy = await startWith(receiver.url);
    await query(proxy);
    await until(() => proxy.logLines(failed).length > 0);
    expect((await proxy.balance()).status).toBe(200);
  });

  it('says when to try again: not before', async () => {
    const times: number[] = [];
    const receiver = await startReceiverThat((response) => {
      times.push(performance.now());
      const first = times.length === 1;
      response.writeHead(first ? 429 : 200, first ? { 'Retry-After': '2' } : {}).end();
    });
    const proxy = await startWith(receiver.url);
    await query(proxy);
    await until(() => times.length >= 2);
    const [first = 0, second = 0] = times;
    expect(second - first).toBeGreaterThanOrEqual(1_990);
  });
});

describeWith('openssl')('with TLS (needs the program openssl)', () => {
  async function startTlsReceiver(ca: Ca, issuer = ca) {
    const bodies: number[] = [];
    const server = createServer(issuer.issue('receiver'), (request, response) => {
      let bytes = 0;
      request.on('data', (chunk: Buffer) => (bytes += chunk.length));
      request.once('end', () => {
        bodies.push(bytes);
        response.end();
      });
    });
    const { port } = starts.closing(await listen(server));
    return { port, url: `https://127.0.0.1:${port}`, bodies, caFile: ca.file };
  }

  it('spans go only to a receiver whose certificate the CA signed', async () => {
    const folder = starts.folder();
    const [ca, other] = [new Ca(folder.path, 'ca'), new Ca(folder.path, 'other')];
    const good = await startTlsReceiver(ca);
    const proxy = await startWith(good.url, { caFile: good.caFile });
    await proxy.stop();
    expect(proxy.logLines(failed)).toEqual([]);
    expect(good.bodies.filter((bytes) => bytes > 100)).toHaveLength(1);
    const wrong = await startTlsReceiver(ca, other);
    for (const url of [wrong.url, `https://localhost:${good.port}`]) {
      const second = await startWith(url, { caFile: good.caFile });
      await second.stop();
      expect(second.logLines(failed)).toMatchObject([{ cause: expect.stringMatching(/^TLS: /) }]);
    }
    expect([...wrong.bodies, ...good.bodies]).toHaveLength(1);
  });

  it('a CA file that cannot be read is named', async () => {
    const proxy = await startWith('https://127.0.0.1:9', { caFile: '/nowhere/ca.pem' });
    await proxy.stop();
    expect(proxy.logLines(failed)).toMatchObject([{ cause: '/nowhere/ca.pem: does not exist' }]);
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
