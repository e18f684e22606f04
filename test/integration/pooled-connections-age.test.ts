import { setTimeout as wait } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import { always, httpResponse, type Script } from '../support/faulty-gateway.ts';
import { harness, type Pair } from '../support/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();

const start = (script: Script, connectionMaxAge: string): Promise<Pair> =>
  starts.pair([script], { sandbox: { connectionMaxAge } });

it('a pooled connection that is too old is closed while it is idle, and not reused', async () => {
  let open = 0;
  const script: Script = async (conversation) => {
    open += 1;
    conversation.socket.once('close', () => {
      open -= 1;
    });
    await always(httpResponse('200 OK', '[]'))(conversation);
  };
  const { gateway, proxy } = await start(script, '800ms');
  for (let turn = 0; turn < 3; turn += 1) expect((await proxy.balance()).status).toBe(200);
  expect([gateway.connections(), open]).toEqual([1, 1]);
  await until(() => open === 0);
  expect((await proxy.balance()).status).toBe(200);
  expect(gateway.connections()).toBe(2);
});

it('a pooled connection that becomes too old during a request is closed after it', async () => {
  const { gateway, proxy } = await start(async (conversation) => {
    while ((await conversation.request()) !== undefined) {
      await wait(150);
      conversation.write(httpResponse('200 OK', '[]'));
    }
  }, '100ms');
  for (let turn = 1; turn < 3; turn += 1) {
    expect(await proxy.balance()).toMatchObject({ status: 200, body: '[]', complete: true });
    expect(gateway.connections()).toBe(turn);
  }
});
