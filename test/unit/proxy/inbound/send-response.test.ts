import { randomUUID } from 'node:crypto';
import { createServer, IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import express, { type Request, type Response } from 'express';
import { configSchema } from '../../../../src/config/schema.ts';
import { ProxyError } from '../../../../src/errors.ts';
import { createRoutes } from '../../../../src/gateway/router.ts';
import { sendProblem, sendResponse } from '../../../../src/proxy/inbound/send-response.ts';
import { UpstreamError } from '../../../../src/proxy/outbound/upstream-error.ts';
import type { GatewayResponse } from '../../../../src/proxy/outbound/upstream-request.ts';
import type { ResponseResult } from '../../../../src/request-context.ts';
import { configFor } from '../../../support/config.ts';
import { harness } from '../../../support/harness.ts';
import { listen } from '../../../support/listening.ts';
import { expectProblem, reasons, saysWhenToRetry } from '../../../support/problem.ts';
import { formRequest, RawConnection } from '../../../support/raw-http.ts';

const starts = harness();

const destination = createRoutes(configSchema.parse(configFor('https://gateway.test'))).resolve(
  '/sandbox/gw/api/v4/transfer/1234',
);

type Result = ResponseResult | undefined;

/** A connection with one request, and the result of handling it. */
async function send(handle: (request: Request, response: Response) => Promise<Result>) {
  const { promise: handled, resolve, reject } = Promise.withResolvers<Result>();
  const app = express().use((request, response) => void handle(request, response).then(resolve, reject));
  const { port } = starts.closing(await listen(createServer(app)));
  const connection = starts.closing(await RawConnection.open(`http://127.0.0.1:${port}`));
  connection.send(formRequest('/'));
  return { connection, handled };
}

const sendGatewayResponse = (gatewayResponse: GatewayResponse) => (request: Request, response: Response) =>
  sendResponse(request, response, { id: 'id' }, gatewayResponse, destination, {});

it.each([
  [
    'a gateway that breaks off leaves the outcome unknown, however slowly the client reads',
    new Error('read ECONNRESET'),
    { status: 200, outcome: 'unknown', reason: 'gateway-reset' },
  ],
  [
    'a timeout because the client reads too slowly leaves the outcome as it was',
    new UpstreamError('gateway-timeout', true, false),
    { status: 200, outcome: 'answered' },
  ],
])('a large response: %s', async (_, failure, result) => {
  const rest = new IncomingMessage(new Socket());
  let response: Response | undefined;
  const { connection, handled } = await send((request, own) => {
    response = own;
    return sendGatewayResponse({ status: 200, headers: {}, body: Buffer.from('begin'), rest })(request, own);
  });
  connection.pause();
  // More than the buffers between here and the client hold.
  for (let mebibytes = 0; mebibytes < 24; mebibytes += 1) rest.push(Buffer.alloc(1_048_576));
  await wait(200);
  expect(response?.writableNeedDrain).toBe(true);
  rest.destroy(failure);
  expect(await handled).toEqual(result);
});

/** RFC 9110 section 8.6: that of a 304 would be the length of another response, and a 204 must have none. */
it.each([204, 304])(
  'a response of status %i, which has no content, has no Content-Length',
  async (status) => {
    const { connection } = await send(sendGatewayResponse({ status, headers: {}, body: Buffer.alloc(0) }));
    await connection.received(20);
    connection.finish();
    const response = await connection.responseOrEnd();
    expect(response).toMatchObject({
      status,
      headers: expect.not.objectContaining({ 'content-length': expect.anything() }),
    });
  },
);

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
