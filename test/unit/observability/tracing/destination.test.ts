import { createServer } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createDestination } from '../../../../src/observability/tracing/destination.ts';
import { silent, startFaultyGateway } from '../../../support/faulty-gateway.ts';
import { type Listening, listen } from '../../../support/listening.ts';
import { until } from '../../../support/until.ts';

describe('what the response of a receiver means', () => {
  let receiver: Listening;

  beforeAll(async () => {
    // The path is the status, and what is in Retry-After, or for 200 the body.
    const server = createServer((request, response) => {
      const [, status, retryAfter = ''] = request.url?.split('/') ?? [];
      const isAccepted = status === '200';
      if (!isAccepted && retryAfter !== '') response.setHeader('Retry-After', decodeURIComponent(retryAfter));
      response.writeHead(Number(status)).end(isAccepted ? Buffer.from(retryAfter, 'hex') : undefined);
    });
    receiver = await listen(server);
  });
  afterAll(() => receiver.close());

  it.each([
    ['429/7', true, 7],
    ['429', true, 0],
    ['502', true, 0],
    ['503/86400', true, 60],
    ['504/Thu, 15 Jan 2026 12:00:00 GMT', true, 0],
    ['500/7', false, 7],
    ['400', false, 0],
    ['307', false, 0],
  ])('%s', async (path, retryable, retryAfter) => {
    const send = createDestination({ otlp: `http://127.0.0.1:${receiver.port}/${path}`, headers: {} });
    const cause = `status ${path.slice(0, 3)} instead of 200`;
    const delivery = await send(Buffer.from('spans'), new AbortController().signal);
    expect(delivery).toEqual({ cause, retryable, retryAfter });
  });

  it.each([
    // The decoder of the SDK makes NaN and Infinity of these.
    ['too long for a number', `${'80'.repeat(149)}00`],
    ['endless', `${'ff'.repeat(149)}01`],
    ['negative', 'ffffffffffffffffff01'],
  ])('200 with a number of rejected spans that is %s: not of OTLP', async (_what, number) => {
    const partial = Buffer.from(`08${number}`, 'hex');
    const body = Buffer.concat([
      Buffer.from([0x0a, (partial.length & 127) | 128, partial.length >> 7]),
      partial,
    ]);
    const otlp = `http://127.0.0.1:${receiver.port}/200/${body.toString('hex')}`;
    const delivery = await createDestination({ otlp, headers: {} })(
      Buffer.from('spans'),
      new AbortController().signal,
    );
    expect(delivery).toEqual({ cause: 'the response is not one of OTLP', retryable: false });
  });

  it('200 without a text: all are accepted', async () => {
    const send = createDestination({ otlp: `http://127.0.0.1:${receiver.port}/200`, headers: {} });
    expect(await send(Buffer.from('spans'), new AbortController().signal)).toEqual({ rejected: 0 });
  });
});

it('ends at once when the process does, also while an egress proxy opens no tunnel', async () => {
  const proxy = await startFaultyGateway([silent]);
  try {
    const send = createDestination({
      otlp: 'https://collector.example',
      headers: {},
      egressProxy: { url: proxy.url },
    });
    const stopped = new AbortController();
    const delivery = send(Buffer.from('spans'), stopped.signal);
    await until(() => proxy.requests().length > 0);
    const startedAt = performance.now();
    stopped.abort();
    expect(await delivery).toMatchObject({ cause: 'ended before there was a response' });
    expect(performance.now() - startedAt).toBeLessThan(500);
  } finally {
    await proxy.close();
  }
});
