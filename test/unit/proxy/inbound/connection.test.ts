import { once } from 'node:events';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Connection, Turns } from '../../../../src/proxy/inbound/connection.ts';

const broken = new Error('broken');
let socket: Socket;
let connection: Connection;
/** Requests that were handled, in order. */
let handled: IncomingMessage[];
/** Sizes of the chunks that Node's parser got. */
let parsed: number[];

beforeEach(() => open(new Turns()));

function open(turns: Turns): void {
  socket = new Socket();
  parsed = [];
  // Like the listener of Node's HTTP server.
  socket.on('data', (chunk: Buffer) => parsed.push(chunk.length));
  handled = [];
  connection = new Connection(socket, (request) => handled.push(request), turns);
}

/** A request on the connection, whose socket is not connected. */
function receive({ complete = true, httpVersion = '1.1', upgrade = '' } = {}) {
  const request = new IncomingMessage(socket);
  Object.assign(request, { complete, httpVersion, httpVersionMajor: 1, httpVersionMinor: 1 });
  if (upgrade !== '') request.headers.upgrade = upgrade;
  const response = new ServerResponse(request);
  connection.receive(request, response);
  return { request, response, closes: () => response.getHeader('connection') === 'close' };
}

describe('a connection', () => {
  it('handles one request at a time, in order', () => {
    const [first, second, third] = [receive(), receive(), receive()];
    expect(handled).toEqual([first.request]);
    first.response.emit('close');
    expect(handled).toEqual([first.request, second.request]);
    second.response.emit('close');
    expect(handled).toEqual([first.request, second.request, third.request]);
    third.response.emit('close');
  });

  it('handles no request after a response with "Connection: close"', () => {
    const first = receive();
    receive();
    first.response.setHeader('Connection', 'close');
    first.response.flushHeaders();
    receive();
    first.response.emit('close');
    receive();
    expect(handled).toEqual([first.request]);
  });

  it('does not parse while a response is pending', async () => {
    socket.push(Buffer.alloc(10));
    await nextTurn();
    await nextTurn();
    const { response } = receive();
    socket.push(Buffer.alloc(20));
    socket.push(Buffer.alloc(30));
    socket.push(null);
    // Node resumes the socket, even if it did not pause it.
    socket.resume();
    await nextTurn();
    expect(parsed).toEqual([10]);
    expect(socket.readableEnded).toBe(false);
    response.emit('close');
    await nextTurn();
    expect(parsed).toEqual([10, 20, 30]);
    expect(socket.readableEnded).toBe(true);
  });

  it('parses the body of the current request in slices', () => {
    receive({ complete: false });
    socket.emit('data', Buffer.alloc(1500));
    expect(parsed).toEqual([512, 512, 476]);
    expect(socket.isPaused()).toBe(false);
  });

  it.each([
    { status: 401, turns: [4_096, 4_096, 4_096, 8_192] },
    { status: 200, turns: [4_096, 8_192, 12_288, 16_384] },
  ])(
    'parses 4,096 bytes of a body per turn; behind 40 strangers, unless the response before was no rejection: $status',
    async ({ status, turns: expected }) => {
      const turns = new Turns();
      open(turns);
      const { response } = receive();
      response.statusCode = status;
      response.emit('close');
      receive({ complete: false });
      for (let stranger = 0; stranger < 40; stranger += 1) turns.wait(() => {});
      const sums: number[] = [];
      socket.emit('data', Buffer.alloc(16_384));
      for (let turn = 0; turn < 4; turn += 1) {
        sums.push(parsed.reduce((sum, bytes) => sum + bytes, 0));
        await nextTurn();
      }
      expect(sums).toEqual(expected);
      socket.destroy();
    },
  );

  it.each([
    { encoding: 'none', headers: {}, bytes: 4_096 },
    { encoding: 'chunked', headers: { 'transfer-encoding': 'chunked' }, bytes: 512 },
  ])(
    'holds so much of a body whose reader has not begun, encoding $encoding: $bytes',
    ({ headers, bytes }) => {
      const { request } = receive({ complete: false });
      Object.assign(request.headers, headers);
      request.push(Buffer.alloc(bytes - 1));
      socket.emit('data', Buffer.alloc(10));
      expect(parsed).toEqual([10]);
      request.push(Buffer.alloc(1));
      socket.emit('data', Buffer.alloc(10));
      expect(parsed).toEqual([10]);
    },
  );

  it.each([
    { status: 200, waits: false },
    { status: 401, waits: true },
  ])('after a response with $status: the next request waits for its turn: $waits', ({ status, waits }) => {
    const { response } = receive();
    response.statusCode = status;
    response.emit('close');
    socket.emit('data', Buffer.alloc(10));
    expect(parsed).toEqual(waits ? [] : [10]);
    socket.destroy();
  });

  it('parses what was held during a rejected request at once, since the time for its head may be over', async () => {
    const { response } = receive();
    socket.emit('data', Buffer.alloc(10));
    response.statusCode = 401;
    response.emit('close');
    await Promise.resolve();
    expect(parsed).toEqual([]);
    await new Promise<void>((resolve) => process.nextTick(resolve));
    expect(parsed).toEqual([10]);
    socket.destroy();
  });

  it('parses nothing of a stranger that has disconnected before its turn', async () => {
    socket.emit('data', Buffer.alloc(10));
    socket.destroy();
    await nextTurn();
    await nextTurn();
    expect(parsed).toEqual([]);
  });

  it('handles no queued request after the client has disconnected', () => {
    const [first] = [receive(), receive()];
    socket.destroy();
    first.response.emit('close');
    expect(handled).toEqual([first.request]);
  });

  it.each([{ upgrade: 'h2c' }, { httpVersion: '1.0' }])('closes after a request with %j', (fields) => {
    const first = receive(fields);
    receive();
    expect(first.closes()).toBe(true);
    first.response.emit('close');
    expect(handled).toEqual([first.request]);
  });
});

describe('a hundred connections of strangers', () => {
  it('begin or continue sixteen requests in each turn of the event loop', async () => {
    const turns = new Turns();
    const sockets = Array.from({ length: 100 }, () => {
      const one = new Socket();
      one.on('data', (chunk: Buffer) => parsed.push(chunk.length));
      return { one, connection: new Connection(one, () => {}, turns) };
    });
    for (let round = 0; round < 2; round += 1) {
      parsed = [];
      for (const { one } of sockets) one.push(Buffer.alloc(10));
      const perTurn: number[] = [];
      for (let turn = 0; turn < 12; turn += 1) {
        const before = parsed.length;
        await nextTurn();
        perTurn.push(parsed.length - before);
      }
      expect(perTurn.filter((count) => count > 0)).toEqual([16, 16, 16, 16, 16, 16, 4]);
    }
    for (const { one } of sockets) one.destroy();
  });
});

describe('a closing connection', () => {
  it('announces that in the current response, and handles nothing behind it', () => {
    const [first, second] = [receive(), receive()];
    connection.close();
    receive();
    expect([first.closes(), second.closes()]).toEqual([true, false]);
    first.response.emit('close');
    expect(handled).toEqual([first.request]);
  });

  it('does not parse the rest of a request that it does not handle', () => {
    const { response } = receive();
    receive({ complete: false });
    connection.close();
    response.emit('close');
    socket.emit('data', Buffer.alloc(10));
    expect(parsed).toEqual([]);
  });

  it('while draining, handles one more request if the current response has begun without saying so', () => {
    const first = receive();
    first.response.flushHeaders();
    connection.endWithNextResponse();
    const second = receive();
    first.response.emit('close');
    expect([first.closes(), second.closes()]).toEqual([false, true]);
    expect(handled).toEqual([first.request, second.request]);
  });

  it('while draining and idle, handles one more request', () => {
    connection.endWithNextResponse();
    expect(receive().closes()).toBe(true);
  });

  it('ends after a response whose head was already sent', () => {
    const end = jest.spyOn(socket, 'end');
    const { response } = receive();
    response.flushHeaders();
    connection.close();
    receive();
    expect(end).not.toHaveBeenCalled();
    response.emit('close');
    expect(end).toHaveBeenCalledTimes(1);
    expect(handled).toHaveLength(1);
  });

  it('ends immediately if it is idle', () => {
    const end = jest.spyOn(socket, 'end');
    connection.close();
    expect(end).toHaveBeenCalledTimes(1);
  });

  it('reads input after the last request, so that the client gets the response before a reset', async () => {
    const end = jest.spyOn(socket, 'end');
    receive();
    socket.push(Buffer.alloc(10));
    await nextTurn();
    // Like Node after a response with "Connection: close".
    socket.destroySoon();
    expect(end).toHaveBeenCalledTimes(1);
    await nextTurn();
    expect(socket.destroyed).toBe(false);
    expect(socket.isPaused()).toBe(false);
    expect(socket.readableLength).toBe(0);
    expect(parsed).toEqual([]);
  });

  it('is destroyed if the client sends more than the limit of a lingering close', () => {
    connection.close();
    socket.emit('data', Buffer.alloc(1_048_576));
    expect(socket.destroyed).toBe(false);
    connection.close();
    socket.emit('data', Buffer.alloc(1));
    expect(socket.destroyed).toBe(true);
  });

  it('is destroyed if the client does not close its side', async () => {
    const began = performance.now();
    connection.close();
    await once(socket, 'close');
    expect(socket.destroyed).toBe(true);
    expect(performance.now() - began).toBeLessThan(3_000);
  });
});

describe('bytes that are not valid HTTP', () => {
  const respond = jest.fn(() => 'response');
  let write: jest.SpiedFunction<Socket['write']>;

  beforeEach(() => {
    respond.mockClear();
    write = jest.spyOn(socket, 'write').mockReturnValue(true);
  });

  it('get a response if no request is in flight', () => {
    connection.fail(broken, respond);
    expect(write).toHaveBeenCalledWith('response');
    connection.fail(broken, respond);
    expect(respond).toHaveBeenCalledTimes(1);
  });

  it('are dropped after a complete request, whose response is the last one', () => {
    const end = jest.spyOn(socket, 'end');
    const { closes, response } = receive();
    connection.fail(broken, respond);
    expect(closes()).toBe(true);
    expect(end).not.toHaveBeenCalled();
    response.emit('close');
    expect(end).toHaveBeenCalledTimes(1);
    expect(respond).not.toHaveBeenCalled();
  });

  it.each([0, 3])(
    'in the body of the current request make it fail, even if reading begins %i turns later',
    async (turns) => {
      const { request } = receive({ complete: false });
      connection.fail(broken, respond);
      for (let turn = 0; turn < turns; turn += 1) await nextTurn();
      const seen = jest.fn();
      request.on('data', () => {}).on('error', seen);
      await nextTurn();
      await nextTurn();
      expect(seen).toHaveBeenCalledWith(broken);
      expect(respond).not.toHaveBeenCalled();
      socket.emit('data', Buffer.alloc(10));
      expect(parsed).toEqual([]);
    },
  );

  it('in the body of the current request make its response the last one', () => {
    const end = jest.spyOn(socket, 'end');
    const { response } = receive({ complete: false });
    connection.fail(broken, respond);
    response.emit('close');
    expect(end).toHaveBeenCalledTimes(1);
  });

  it('in the body of a queued request make the previous response the last one', () => {
    const first = receive();
    receive({ complete: false });
    connection.fail(broken, respond);
    expect(first.closes()).toBe(true);
    first.response.emit('close');
    expect(handled).toEqual([first.request]);
  });
});
