import { createServer, IncomingMessage, request, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, it } from '@jest/globals';
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

function create(): UpstreamRequest {
  const memory = unlimitedMemory();
  const upstream = new UpstreamRequest(signed, { connect: 10_000, total: 10_000, memory });
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
