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
    /** Of orders with two posts at the same moment. */
    const parallel = new Set<string>();
    gateway.respond = (response, { body }) => {
      const orderId = new URLSearchParams(body.toString()).get('client_orderid') ?? '';
      gateway.requests.length = 0;
      const isRejected = random.chance(0.02);
      if (!isRejected) processed.set(orderId, (processed.get(orderId) ?? 0) + 1);
      if (isRejected) response.writeHead(403).end();
      else if (random.chance(0.02)) response.socket?.destroy();
      else response.end('OK');
    };
    const keyFile = starts.folder().file('once.key', 'k'.repeat(32));
    const config = { payments: { once: { store: store.url, keyFile } } };
    const options = { gateway: gateway.url, config };
    const instances = [await starts.process(options), await starts.process(options)];
    const outcomes = new Map<string, number>();
    const lies: string[] = [];
    let next = 0;

    /** @returns the outcome */
    const pay = async (orderId: string): Promise<string> => {
      const { url } = random.pick(instances);
      const before = processed.get(orderId) ?? 0;
      const { status, headers, body } = await post(
        `${url}${paths.transfer}`,
        `client_orderid=${orderId}&amount=1`,
      );
      const outcome = String(headers['countersign-outcome']);
      const reason = headers['content-type'] === 'application/problem+json' ? JSON.parse(body).reason : '';
      const end = `${outcome} ${status} ${reason}`;
      outcomes.set(end, (outcomes.get(end) ?? 0) + 1);
      if (outcome === 'not-sent' && !parallel.has(orderId) && (processed.get(orderId) ?? 0) > before)
        lies.push(`${orderId}: ${end}`);
      return status === 403 ? 'not-sent' : outcome;
    };

    const payOften = async (): Promise<void> => {
      while (next < payments) {
        next += 1;
        const orderId = `order-${next}`;
        if (random.chance(0.2)) {
          parallel.add(orderId);
          await Promise.all([pay(orderId), pay(orderId)]);
        }
        // As payments.md says; and then once more whatever it was.
        const repeats = random.int(1, 3);
        for (let attempt = 0; attempt < repeats; attempt += 1) await pay(orderId);
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
    expect(lies).toEqual([]);
    expect(kills).toBeGreaterThan(2);
    expect(outcomes.get('unknown 409 duplicate-payment')).toBeGreaterThan(payments / 4);
    expect(outcomes.get('not-sent 503 claims-unavailable')).toBeGreaterThan(0);
  },
  300_000,
);
