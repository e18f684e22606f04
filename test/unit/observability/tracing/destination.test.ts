import { createServer } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createDestination } from '../../../../src/observability/tracing/destination.ts';
import { type Listening, listen } from '../../../support/listening.ts';

describe('what the response of a receiver means', () => {
  let receiver: Listening;

  beforeAll(async () => {
    // The path is the status, and what is in Retry-After.
    const server = createServer((request, response) => {
      const [, status, retryAfter = ''] = request.url?.split('/') ?? [];
      if (retryAfter !== '') response.setHeader('Retry-After', decodeURIComponent(retryAfter));
      response.writeHead(Number(status)).end();
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

  it('200 without a text: all are accepted', async () => {
    const send = createDestination({ otlp: `http://127.0.0.1:${receiver.port}/200`, headers: {} });
    expect(await send(Buffer.from('spans'), new AbortController().signal)).toEqual({ rejected: 0 });
  });
});
