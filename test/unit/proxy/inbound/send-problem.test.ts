import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { afterEach, describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../../src/errors.ts';
import { sendProblem } from '../../../../src/proxy/inbound/send-response.ts';
import type { ResponseResult } from '../../../../src/request-context.ts';
import { RawConnection } from '../../../support/raw-http.ts';

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

type Handle = (request: IncomingMessage, response: ServerResponse) => Promise<ResponseResult | undefined>;

/** A connection with one request, and the result of handling it. */
async function send(
  handle: Handle,
): Promise<{ connection: RawConnection; handled: Promise<ResponseResult | undefined> }> {
  const handled = Promise.withResolvers<ResponseResult | undefined>();
  const server = createServer((request, response) => {
    handle(request, response).then(handled.resolve, handled.reject);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const connection = await RawConnection.open(`http://127.0.0.1:${port}`);
  stops.push(
    () => connection.close(),
    () => void server.close(),
  );
  connection.send('POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n');
  return { connection, handled: handled.promise };
}

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
