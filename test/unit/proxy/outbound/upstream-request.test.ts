import { IncomingMessage, request } from 'node:http';
import { Socket } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { unlimitedMemory } from '../../../../src/proxy/limits.ts';
import { type SignedHttpRequest, UpstreamRequest } from '../../../../src/proxy/outbound/upstream-request.ts';

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
