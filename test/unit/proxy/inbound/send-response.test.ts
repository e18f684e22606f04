import { randomUUID } from 'node:crypto';
import { createServer, IncomingMessage, request, type ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import express, { type Response } from 'express';
import { configSchema } from '../../../../src/config/schema.ts';
import { ProxyError } from '../../../../src/errors.ts';
import { createRoutes } from '../../../../src/gateway/router.ts';
import { sendProblem, sendResponse } from '../../../../src/proxy/inbound/send-response.ts';
import { UpstreamError } from '../../../../src/proxy/outbound/upstream-error.ts';
import type { ResponseResult } from '../../../../src/request-context.ts';
import { listen } from '../../../support/listening.ts';
import { expectProblem, reasons, saysWhenToRetry } from '../../../support/problem.ts';
import { RawConnection } from '../../../support/raw-http.ts';

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

const destination = createRoutes(
  configSchema.parse({
    environments: { sandbox: { baseUrl: 'https://gateway.test', product: 'gw' } },
    keys: { source: 'directory', directory: 'keys' },
  }),
).resolve('/sandbox/gw/api/v4/transfer/1234');

/** Forwards a large response to a client that reads nothing, until `failure` ends it. */
async function resultAfter(failure: Error): Promise<unknown> {
  const rest = new IncomingMessage(new Socket());
  const { promise: result, resolve } = Promise.withResolvers<unknown>();
  const waiting = Promise.withResolvers<Response>();
  const app = express().use((received, response) => {
    const gatewayResponse = { status: 200, headers: {}, body: Buffer.from('begin'), rest };
    resolve(sendResponse(received, response, { id: 'id' }, gatewayResponse, destination, {}));
    waiting.resolve(response);
  });
  const server = createServer(app);
  const { port, close } = await listen(server);
  stops.push(() => void close());
  const client = request({ port, agent: false }).on('error', () => {});
  // Without a listener Node would read the response.
  client.on('response', (response) => response.on('error', () => {})).end();
  const response = await waiting.promise;
  // More than the buffers between here and the client hold.
  for (let mebibytes = 0; mebibytes < 24; mebibytes += 1) rest.push(Buffer.alloc(1_048_576));
  await new Promise((done) => {
    setTimeout(done, 200);
  });
  expect(response.writableNeedDrain).toBe(true);
  rest.destroy(failure);
  return result;
}

it('a gateway that breaks off leaves the outcome unknown, however slowly the client reads', async () => {
  expect(await resultAfter(new Error('read ECONNRESET'))).toEqual({
    status: 200,
    outcome: 'unknown',
    reason: 'gateway-reset',
  });
});

it('a timeout because the client reads too slowly leaves the outcome as it was', async () => {
  const timeout = new UpstreamError('gateway-timeout', true, false);
  expect(await resultAfter(timeout)).toEqual({ status: 200, outcome: 'answered' });
});

/** RFC 9110 section 8.6: that of a 304 would be the length of another response, and a 204 must have none. */
it.each([204, 304])(
  'a response of status %i, which has no content, has no Content-Length',
  async (status) => {
    const app = express().use((received, response) => {
      const gatewayResponse = { status, headers: {}, body: Buffer.alloc(0) };
      void sendResponse(received, response, { id: 'id' }, gatewayResponse, destination, {});
    });
    const { port, close } = await listen(createServer(app));
    stops.push(() => void close());
    const received = await new Promise<IncomingMessage>((resolve) => {
      request({ port, agent: false }, resolve).end();
    });
    received.resume();
    expect([received.statusCode, received.headers['content-length']]).toEqual([status, undefined]);
  },
);

type Handle = (request: IncomingMessage, response: ServerResponse) => Promise<ResponseResult | undefined>;

/** A connection with one request, and the result of handling it. */
async function send(
  handle: Handle,
): Promise<{ connection: RawConnection; handled: Promise<ResponseResult | undefined> }> {
  const handled = Promise.withResolvers<ResponseResult | undefined>();
  const server = createServer((request, response) => {
    handle(request, response).then(handled.resolve, handled.reject);
  });
  const { port, close } = await listen(server);
  const connection = await RawConnection.open(`http://127.0.0.1:${port}`);
  stops.push(
    () => connection.close(),
    () => void close(),
  );
  connection.send('POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n');
  return { connection, handled: handled.promise };
}

it.each(reasons)('the response to %s says what the documentation promises', async (reason) => {
  const error = new ProxyError(reason, 'What to do.', saysWhenToRetry(reason) ? { retryAfter: 1 } : {});
  const { connection } = await send((request, response) =>
    sendProblem(request, response, { id: randomUUID() }, error, {}),
  );
  expectProblem(await connection.response(), reason);
});

const aborted = new ProxyError('shutting-down', 'Shutting down; nothing was sent.');

describe('a problem after an abort', () => {
  it('keeps a response that the handler has completed meanwhile', async () => {
    const { connection, handled } = await send((request, response) => {
      const result = sendProblem(request, response, { id: '1' }, aborted, {});
      response.end('OK');
      return result;
    });
    expect(await connection.response()).toMatchObject({ status: 200, body: Buffer.from('OK') });
    expect(await handled).toBeUndefined();
  });

  it('aborts a response that has begun meanwhile, and gives the status that the client has seen', async () => {
    const { connection, handled } = await send((request, response) => {
      const result = sendProblem(request, response, { id: '1' }, aborted, {});
      response.writeHead(200, { 'Content-Length': '100' });
      response.write('begin');
      return result;
    });
    expect(await handled).toEqual({ status: 200, reason: 'shutting-down', outcome: 'not-sent' });
    expect(await connection.gone()).toBe('ECONNRESET');
  });

  it('is the response if there is none yet', async () => {
    const { connection, handled } = await send((request, response) =>
      sendProblem(request, response, { id: '1' }, aborted, {}),
    );
    expect(await connection.response()).toMatchObject({ status: 503 });
    expect(await handled).toEqual({ status: 503, reason: 'shutting-down', outcome: 'not-sent' });
  });
});
