import { once } from 'node:events';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Connection } from '../../../../src/proxy/inbound/connection.ts';
import { linger } from '../../../../src/proxy/inbound/lingering-close.ts';
import { MemoryBudget } from '../../../../src/proxy/memory-budget.ts';

const broken = new Error('broken');
let socket: Socket;
let connection: Connection;
let budget: MemoryBudget;
/** Requests that were handled, in order. */
let handled: IncomingMessage[];
/** Sizes of the chunks that Node's parser got; 0 is the end. */
let parsed: number[];

beforeEach(() => {
  socket = new Socket();
  parsed = [];
  // Like the listeners of Node's HTTP server.
  socket.on('data', (chunk: Buffer) => parsed.push(chunk.length)).on('end', () => parsed.push(0));
  handled = [];
  budget = new MemoryBudget(1_000_000);
  const options = { memory: budget.reservation(), headTimeout: 100 };
  connection = new Connection(socket, (request) => handled.push(request), options);
});

/** A request on the connection, whose socket is not connected. */
function receive({ draining = false, complete = true, httpVersion = '1.1', upgrade = '' } = {}) {
  const request = new IncomingMessage(socket);
  Object.assign(request, { complete, httpVersion, httpVersionMajor: 1, httpVersionMinor: 1 });
  if (upgrade !== '') request.headers.upgrade = upgrade;
  const response = new ServerResponse(request);
  connection.receive(request, response, draining);
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

  it('does not parse while a response is pending', () => {
    socket.emit('data', Buffer.alloc(10));
    const { response } = receive();
    socket.emit('data', Buffer.alloc(20));
    socket.emit('data', Buffer.alloc(30));
    socket.emit('end');
    expect(parsed).toEqual([10]);
    expect(socket.isPaused()).toBe(true);
    // Node resumes the socket after a response, even if it did not pause it.
    socket.resume();
    socket.emit('resume');
    expect(socket.isPaused()).toBe(true);
    response.emit('close');
    expect(parsed).toEqual([10, 50, 0]);
  });

  it('parses the body of the current request in slices', () => {
    receive({ complete: false });
    socket.emit('data', Buffer.alloc(2500));
    expect(parsed).toEqual([1024, 1024, 452]);
    expect(socket.isPaused()).toBe(false);
  });

  it('reads ahead only within the memory budget, and closes after the current response beyond it', () => {
    budget.limit = 100;
    const { response, closes } = receive();
    socket.emit('data', Buffer.alloc(100));
    expect(closes()).toBe(false);
    expect(budget.reservation().reserve(1)).toBe(false);
    socket.emit('data', Buffer.alloc(1));
    expect(closes()).toBe(true);
    expect(budget.reservation().reserve(100)).toBe(true);
    response.emit('close');
    expect(parsed).toEqual([]);
  });

  it('handles no queued request after the client has disconnected', () => {
    const [first] = [receive(), receive()];
    socket.destroy();
    first.response.emit('close');
    expect(handled).toEqual([first.request]);
  });

  it('does not parse after the parser has failed', () => {
    connection.fail(broken, () => '');
    socket.emit('data', Buffer.alloc(10));
    socket.emit('end');
    expect(parsed).toEqual([]);
  });

  it.each([{ upgrade: 'h2c' }, { httpVersion: '1.0' }])('closes after a request with %j', (fields) => {
    const first = receive(fields);
    receive();
    expect(first.closes()).toBe(true);
    first.response.emit('close');
    expect(handled).toEqual([first.request]);
  });
});

describe('a closing connection', () => {
  it('announces that in the last pending response', () => {
    const [first, second] = [receive(), receive()];
    connection.announceClose();
    expect([first.closes(), second.closes()]).toEqual([false, true]);
    const third = receive({ draining: true });
    expect([first.closes(), second.closes(), third.closes()]).toEqual([false, false, true]);
  });

  it('closes although another request follows, if that was already announced', () => {
    const first = receive({ draining: true });
    first.response.flushHeaders();
    receive({ draining: true });
    expect(first.closes()).toBe(true);
    first.response.emit('close');
    expect(handled).toEqual([first.request]);
  });

  it('finishes the queue and accepts no new request (closeAfterReceived)', () => {
    const [first, second] = [receive(), receive()];
    connection.closeAfterReceived();
    receive();
    expect(second.closes()).toBe(true);
    first.response.emit('close');
    second.response.emit('close');
    expect(handled).toEqual([first.request, second.request]);
  });

  it('does not process the queue (closeAfterCurrent)', () => {
    const [first] = [receive(), receive()];
    connection.closeAfterCurrent();
    expect(first.closes()).toBe(true);
    first.response.emit('close');
    expect(handled).toEqual([first.request]);
  });

  it('ends after a response whose head was already sent', () => {
    const end = jest.spyOn(socket, 'end');
    const { response } = receive();
    response.flushHeaders();
    connection.closeAfterReceived();
    receive();
    expect(end).not.toHaveBeenCalled();
    response.emit('close');
    expect(end).toHaveBeenCalledTimes(1);
    expect(handled).toHaveLength(1);
  });

  it('ends immediately if it is idle', () => {
    const end = jest.spyOn(socket, 'end');
    connection.closeAfterReceived();
    expect(end).toHaveBeenCalledTimes(1);
  });

  it('reads input after the last request, so that the client gets the response before a reset', async () => {
    const end = jest.spyOn(socket, 'end');
    receive();
    socket.emit('data', Buffer.alloc(10));
    // Like Node after a response with "Connection: close".
    socket.destroySoon();
    expect(end).toHaveBeenCalledTimes(1);
    await nextTurn();
    expect(socket.destroyed).toBe(false);
    expect(socket.isPaused()).toBe(false);
    socket.emit('end');
    expect(socket.destroyed).toBe(true);
  });

  it('is destroyed once the response is written, if there is no unread input', async () => {
    receive();
    socket.destroySoon();
    await nextTurn();
    expect(socket.destroyed).toBe(true);
  });

  it('is destroyed if the client sends more than the limit of a lingering close', () => {
    connection.closeAfterReceived();
    socket.emit('data', Buffer.alloc(linger.bytes));
    expect(socket.destroyed).toBe(false);
    socket.emit('data', Buffer.alloc(1));
    expect(socket.destroyed).toBe(true);
  });

  it('is destroyed if the client does not close its side', async () => {
    connection.closeAfterReceived();
    await once(socket, 'close');
    expect(socket.destroyed).toBe(true);
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

  it('in the body of the current request make it fail, even if reading begins later', async () => {
    const { request } = receive({ complete: false });
    connection.fail(broken, respond);
    const seen = jest.fn();
    request.on('error', seen);
    await nextTurn();
    expect(seen).toHaveBeenCalledWith(broken);
    expect(respond).not.toHaveBeenCalled();
  });

  it('in an unread body are ignored', async () => {
    receive({ complete: false });
    connection.fail(broken, respond);
    await nextTurn();
    expect(respond).not.toHaveBeenCalled();
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

describe("when Node's time for a request is over", () => {
  const late = new Error('late');
  const respond = jest.fn(() => 'response');
  let write: jest.SpiedFunction<Socket['write']>;

  beforeEach(() => {
    respond.mockClear();
    write = jest.spyOn(socket, 'write').mockReturnValue(true);
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick'] });
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  it('an idle connection gets a response', () => {
    connection.timeOut(late, respond);
    expect(write).toHaveBeenCalledWith('response');
  });

  it('the body of the current request fails', async () => {
    const { request } = receive({ complete: false });
    const seen = jest.fn();
    request.on('error', seen);
    connection.timeOut(late, respond);
    await nextTurn();
    expect(seen).toHaveBeenCalledWith(late);
  });

  it('a head behind a response gets its time when its turn has come', () => {
    const { response, closes } = receive();
    connection.timeOut(late, respond);
    jest.advanceTimersByTime(1_000);
    expect(closes()).toBe(false);
    response.emit('close');
    jest.advanceTimersByTime(99);
    expect(respond).not.toHaveBeenCalled();
    jest.advanceTimersByTime(1);
    expect(write).toHaveBeenCalledWith('response');
  });

  it('a head behind a queued request waits for that too', () => {
    const [first, second] = [receive(), receive()];
    connection.timeOut(late, respond);
    first.response.emit('close');
    jest.advanceTimersByTime(1_000);
    expect(respond).not.toHaveBeenCalled();
    second.response.emit('close');
    jest.advanceTimersByTime(100);
    expect(respond).toHaveBeenCalledTimes(1);
  });

  it('a head whose turn has just come gets the rest of its time', () => {
    receive().response.emit('close');
    jest.advanceTimersByTime(30);
    connection.timeOut(late, respond);
    jest.advanceTimersByTime(69);
    expect(respond).not.toHaveBeenCalled();
    jest.advanceTimersByTime(1);
    expect(write).toHaveBeenCalledWith('response');
  });

  it('a head that began long after the response before is rejected', () => {
    receive().response.emit('close');
    jest.advanceTimersByTime(100);
    connection.timeOut(late, respond);
    expect(write).toHaveBeenCalledWith('response');
  });

  it('a head that arrives after all is handled, and nothing is rejected later', () => {
    const first = receive();
    connection.timeOut(late, respond);
    first.response.emit('close');
    const second = receive();
    jest.advanceTimersByTime(1_000);
    second.response.emit('close');
    jest.advanceTimersByTime(1_000);
    expect(handled).toEqual([first.request, second.request]);
    expect(respond).not.toHaveBeenCalled();
    expect(jest.getTimerCount()).toBe(0);
  });

  it('the body of a queued request is read all the same', () => {
    const first = receive();
    const second = receive({ complete: false });
    connection.timeOut(late, respond);
    expect([first.closes(), second.closes()]).toEqual([false, false]);
    first.response.emit('close');
    expect(handled).toEqual([first.request, second.request]);
    second.response.emit('close');
    jest.advanceTimersByTime(1_000);
    expect(respond).not.toHaveBeenCalled();
  });

  it('no timer outlives the connection', () => {
    const { response } = receive();
    connection.timeOut(late, respond);
    response.emit('close');
    expect(jest.getTimerCount()).toBe(1);
    socket.emit('close');
    expect(jest.getTimerCount()).toBe(0);
  });
});
