import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { expect, it } from '@jest/globals';
import { type SignedHttpRequest, UpstreamRequest } from '../../../../src/proxy/outbound/upstream-request.ts';

const signed: SignedHttpRequest = {
  url: new URL('http://127.0.0.1:1/gw/api'),
  headers: { Host: 'gateway.example', 'Content-Length': '3' },
  body: 'a=b',
};

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
    const memory = { reserve, release: () => {} };
    const upstream = new UpstreamRequest(signed, { connect: 10_000, total: 10_000, readOnly: true, memory });
    const response = Object.assign(new IncomingMessage(new Socket()), { statusCode: 200 });
    upstream.onResponse(response);
    response.push(Buffer.alloc(size));
    response.complete = true;
    response.push(null);
    response.once('end', () => response.destroy());
    const { body, rest } = await upstream.response;
    expect([body.length, reserved, rest !== undefined]).toEqual([size, bytes, isLarge]);
    rest?.destroy();
    // Its timers would keep the process alive.
    upstream.abort();
  },
);

it('a gateway that cannot be reached for another reason than TLS is not said to have a problem of TLS', async () => {
  const memory = { reserve: () => true, release: () => {} };
  const upstream = new UpstreamRequest(signed, { connect: 10_000, total: 10_000, readOnly: true, memory });
  upstream.onError(Object.assign(new Error('connect'), { code: 'EHOSTUNREACH' }));
  await expect(upstream.response).rejects.toMatchObject({
    reason: 'gateway-unreachable',
    unreachable: 'other',
  });
});
