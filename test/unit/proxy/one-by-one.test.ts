import { once } from 'node:events';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it, jest } from '@jest/globals';
import { OneByOne } from '../../../src/proxy/one-by-one.ts';

const broken = new Error('broken');

/** A request that is being handled on a connection that goes nowhere. */
function handled(order: OneByOne, socket: Socket) {
  const request = new IncomingMessage(socket);
  const response = new ServerResponse(request);
  const handle = jest.fn();
  order.guard(handle)(request, response);
  return { request, response, handle };
}

describe('what follows on a connection', () => {
  it('is handled until an answer says "close"', () => {
    const [order, socket] = [new OneByOne(), new Socket()];
    const first = handled(order, socket);
    const second = handled(order, socket);
    second.response.setHeader('Connection', 'close');
    const third = handled(order, socket);
    expect([first, second, third].map(({ handle }) => handle.mock.calls.length)).toEqual([1, 1, 0]);
    expect(handled(order, new Socket()).handle).toHaveBeenCalledTimes(1);
  });

  it('is not handled where the connection ends with what is under way', async () => {
    const [order, socket] = [new OneByOne(), new Socket()];
    const { response } = handled(order, socket);
    order.endWith(socket);
    expect(response.getHeader('connection')).toBe('close');
    expect(handled(order, socket).handle).not.toHaveBeenCalled();
    const begun = new Socket();
    const end = jest.spyOn(begun, 'end');
    const answered = handled(order, begun);
    answered.response.flushHeaders();
    order.endWith(begun);
    expect(handled(order, begun).handle).not.toHaveBeenCalled();
    expect(end).not.toHaveBeenCalled();
    answered.response.emit('close');
    expect(end).toHaveBeenCalledTimes(1);
    const idle = new Socket();
    order.endWith(idle);
    expect(idle.destroyed).toBe(true);
  });

  it('is answered on its own where nothing is under way', async () => {
    const [order, socket, answer] = [new OneByOne(), new Socket(), jest.fn()];
    order.interrupt(broken, socket, answer);
    expect(answer).toHaveBeenCalledTimes(1);
    const { response } = handled(order, socket);
    response.destroy();
    await once(response, 'close');
    order.interrupt(broken, socket, answer);
    expect(answer).toHaveBeenCalledTimes(2);
  });

  it('waits for the answer to a request that is there, and ends the connection then', () => {
    const [order, socket, answer] = [new OneByOne(), new Socket(), jest.fn()];
    const end = jest.spyOn(socket, 'end');
    const { request, response } = handled(order, socket);
    request.complete = true;
    order.interrupt(broken, socket, answer);
    expect(end).not.toHaveBeenCalled();
    response.emit('close');
    expect(end).toHaveBeenCalledTimes(1);
    expect(answer).not.toHaveBeenCalled();
  });

  it('is told to whoever reads the request that it broke off, also if reading begins a moment later', async () => {
    const [order, socket, answer] = [new OneByOne(), new Socket(), jest.fn()];
    const { request } = handled(order, socket);
    order.interrupt(broken, socket, answer);
    const seen = jest.fn();
    request.on('error', seen);
    await nextTurn();
    expect(seen).toHaveBeenCalledWith(broken);
    expect(answer).not.toHaveBeenCalled();
  });

  it('harms nobody where a request that broke off is not read', async () => {
    const [order, socket, answer] = [new OneByOne(), new Socket(), jest.fn()];
    handled(order, socket);
    order.interrupt(broken, socket, answer);
    await nextTurn();
    expect(answer).not.toHaveBeenCalled();
  });
});
