import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import { failBody } from '../../../../src/proxy/inbound/fail-body.ts';

const error = new Error('invalid chunk');

it('reports the error to a handler that reads the body, and to one that begins later', async () => {
  for (const turns of [0, 3]) {
    const request = new IncomingMessage(new Socket());
    const reported: Error[] = [];
    failBody(request, error);
    for (let turn = 0; turn < turns; turn += 1) await nextTurn();
    request.on('data', () => {}).on('error', (one) => reported.push(one));
    await nextTurn();
    await nextTurn();
    expect(reported).toEqual([error]);
  }
});

it('waits for a handler that never reads the body', async () => {
  const request = new IncomingMessage(new Socket());
  failBody(request, error);
  await nextTurn();
  request.on('close', () => {});
  await nextTurn();
  expect(request.listenerCount('error')).toBe(0);
});
