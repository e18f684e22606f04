import { setTimeout as wait } from 'node:timers/promises';
import { expect } from '@jest/globals';
import { paths, post } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { Random } from '../support/random.ts';
import { RedisServer } from '../support/redis-server.ts';
import { itWith } from '../support/requires.ts';

const starts = harness();

const payments = 4_000;
const clients = 16;

itWith('redis-server')(
  'of 4,000 payments, each posted one to three times to two instances, none is sent twice while Redis is killed',
  async () => {
    const random = new Random(44);
    const store = starts.closing(await RedisServer.start());
    const gateway = await starts.recordingGateway();
    const processed = new Map<string, number>();
    gateway.respond = (response, { body }) => {
      const orderId = new URLSearchParams(body.toString()).get('client_orderid') ?? '';
      gateway.requests.length = 0;
      if (random.chance(0.02)) {
        response.writeHead(403).end();
        return;
      }
      processed.set(orderId, (processed.get(orderId) ?? 0) + 1);
      if (random.chance(0.02)) response.socket?.destroy();
      else response.end('OK');
    };
    const keyFile = starts.folder().file('once.key', 'k'.repeat(32));
    const config = { payments: { once: { store: store.url, keyFile } } };
    const options = { gateway: gateway.url, config };
    const instances = [await starts.process(options), await starts.process(options)];
    const reasons = new Map<string, number>();
    let next = 0;

    const pay = async (orderId: string): Promise<void> => {
      const { url } = random.pick(instances);
      const form = `client_orderid=${orderId}&amount=1`;
      const { headers, body } = await post(`${url}${paths.transfer}`, form);
      const isOwn = headers['content-type'] === 'application/problem+json';
      const reason = isOwn ? String(JSON.parse(body).reason) : '';
      reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
    };

    const payOften = async (): Promise<void> => {
      while (next < payments) {
        next += 1;
        const orderId = `order-${next}`;
        if (random.chance(0.2)) await Promise.all([pay(orderId), pay(orderId)]);
        for (let repeats = random.int(1, 3); repeats > 0; repeats -= 1) await pay(orderId);
      }
    };

    const state = { isPaying: true };
    const end = Promise.all(Array.from({ length: clients }, payOften)).finally(() => {
      state.isPaying = false;
    });
    let kills = 0;
    while (state.isPaying) {
      await wait(random.int(250, 1_500));
      if (random.chance(0.3)) {
        store.hang();
        await wait(random.int(100, 2_000));
        store.proceed();
      } else {
        await store.kill();
        await wait(random.int(0, 500));
        await store.restart();
        kills += 1;
      }
    }
    await end;
    const doubled = [...processed].filter(([, times]) => times > 1);
    expect(doubled).toEqual([]);
    expect(kills).toBeGreaterThan(2);
    expect(reasons.get('duplicate-payment')).toBeGreaterThan(payments / 4);
    expect(reasons.get('claims-unavailable')).toBeGreaterThan(0);
  },
  300_000,
);
