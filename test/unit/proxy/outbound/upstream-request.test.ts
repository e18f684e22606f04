import { createServer, IncomingMessage, request, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from '@jest/globals';
import { createProxyMiddleware } from 'http-proxy-middleware';
import { unlimitedMemory } from '../../../../src/proxy/limits.ts';
import {
  DetachedRequest,
  type SignedHttpRequest,
  UpstreamRequest,
} from '../../../../src/proxy/outbound/upstream-request.ts';
import { listen } from '../../../support/listening.ts';

const signed: SignedHttpRequest = {
  url: new URL('http://127.0.0.1:1/gw/api'),
  headers: { Host: 'gateway.example', 'Content-Length': '3' },
  body: 'a=b',
};

function create(memory = unlimitedMemory()): UpstreamRequest {
  const upstream = new UpstreamRequest(signed, { connect: 10_000, total: 10_000, readOnly: true, memory });
  // Its timers would keep the process alive.
  upstream.response.catch(() => {});
  return upstream;
}

it('the detached request sends the body that was signed, and nothing else', async () => {
  const received: string[] = [];
  const server = createServer((incoming, response) => {
    void text(incoming).then((body) => {
      received.push(body);
      return response.end();
    });
  });
  const { port, close } = await listen(server);
  const upstream = create();
  const outgoing = request({ port, method: 'POST' });
  upstream.detachedRequest.pipe(outgoing);
  await new Promise((resolve) => outgoing.once('response', resolve));
  expect(received).toEqual(['a=b']);
  upstream.abort();
  await close();
});

it('a detached request that ends early leaves those of other requests alone', () => {
  const [first, second] = [create(), create()];
  first.detachedRequest.resume().destroy();
  expect(second.detachedRequest.socket.destroyed).toBe(false);
  first.abort();
  second.abort();
});

/** What the wrapper relies on, beyond the documented interface of the middleware. */
it('the middleware passes its request on to its events, takes the body through pipe, and copies the headers', async () => {
  const server = createServer((incoming, response) => {
    response.end(JSON.stringify({ url: incoming.url, headers: incoming.headers }));
  });
  const { port, close } = await listen(server);
  const upstream = create();
  const seen: unknown[] = [];
  let content = '';
  const ended = Promise.withResolvers<void>();
  const proxy = createProxyMiddleware({
    target: new URL(`http://127.0.0.1:${port}`),
    selfHandleResponse: true,
    ejectPlugins: true,
    plugins: [
      (events) => {
        events.on('proxyReq', (_outgoing, incoming) => seen.push(incoming));
        events.on('proxyRes', (response, incoming) => {
          seen.push(incoming);
          void text(response).then((body) => {
            content = body;
            return ended.resolve();
          });
        });
      },
    ],
  });
  const before = { ...upstream.detachedRequest.headers };
  void proxy(upstream.detachedRequest, upstream.detachedResponse);
  await ended.promise;
  expect(seen).toEqual([upstream.detachedRequest, upstream.detachedRequest]);
  expect(upstream.detachedRequest).toBeInstanceOf(DetachedRequest);
  expect(upstream.detachedRequest).toBeInstanceOf(IncomingMessage);
  expect(upstream.detachedResponse).toBeInstanceOf(ServerResponse);
  expect(JSON.parse(content)).toMatchObject({ url: '/gw/api', headers: { host: 'gateway.example' } });
  expect(upstream.detachedRequest.headers).toEqual(before);
  upstream.abort();
  await close();
});

/** A response of this upstream request. */
function respond(upstream: UpstreamRequest): IncomingMessage {
  const response = new IncomingMessage(new Socket());
  response.statusCode = 200;
  upstream.onResponse(response);
  return response;
}

it.each([
  [65_536, 0, false],
  [65_537, 131_074, false],
  [1_048_576, 2_097_152, false],
  [1_048_577, 0, true],
])(
  'of a response of %d bytes, %d are reserved; it is too large to buffer: %s',
  async (size, bytes, isLarge) => {
    let reserved = 0;
    const reserve = (more: number): boolean => {
      reserved += more;
      return true;
    };
    const upstream = create({ reserve, release: () => {} });
    const response = respond(upstream);
    response.push(Buffer.alloc(size));
    response.complete = true;
    response.push(null);
    response.once('end', () => response.destroy());
    const { body, rest } = await upstream.response;
    expect([body.length, reserved, rest !== undefined]).toEqual([size, bytes, isLarge]);
    rest?.destroy();
    upstream.abort();
  },
);

describe('a connection that ends', () => {
  const reset = Object.assign(new Error('reset'), { code: 'ECONNRESET' });

  it('before it was established is one that failed, not for a reason of TLS', async () => {
    const upstream = create();
    upstream.onError(reset);
    const failure = { reason: 'gateway-unreachable', written: false, stalePool: false, unreachable: 'other' };
    await expect(upstream.response).rejects.toMatchObject(failure);
  });

  it.each([
    ['before a response, was closed while it was idle if it is a pooled one', true, false, true],
    ['before a response, was not if it is a new one', false, false, false],
    ['in the middle of a response was not', true, true, false],
  ])('%s', async (_when, reusedSocket, hasResponse, stalePool) => {
    const upstream = create();
    const outgoing = request({ port: 1 }).on('error', () => {});
    upstream.onSocket(Object.assign(outgoing, { reusedSocket }));
    if (hasResponse) respond(upstream).destroy();
    else upstream.onError(reset);
    const failure = { reason: 'gateway-reset', written: true, stalePool };
    await expect(upstream.response).rejects.toMatchObject(failure);
    outgoing.destroy();
  });
});
