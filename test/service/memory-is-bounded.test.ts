import { afterEach, describe, expect, it } from '@jest/globals';
import { startEdge, transfer } from '../support/edge.ts';
import { post, until } from '../support/forwarding.ts';
import { limitMemory, peakMemory } from '../support/memory-limit.ts';
import { configFor, spawnServe } from '../support/process.ts';
import { startRecordingGateway } from '../support/recording-gateway.ts';

const stops: (() => Promise<unknown> | void)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

/** A form of 64 KiB that consists of escapes. */
const largeForm = `a=${'%2B'.repeat(21_800)}`;
const smallest = { proxy: { port: 0, maxBufferedBytes: 1_048_576 } };

describe('the memory for requests and responses', () => {
  it('when it is used up, rejects a further form as overloaded, and admits forms again afterwards', async () => {
    const edge = await startEdge({ config: smallest });
    stops.push(edge.stop);
    const going = Promise.withResolvers<void>();
    edge.gateway.reply = (response) => void going.promise.then(() => response.end('OK'));
    const url = `${edge.proxy.url}${transfer}`;
    const held = [post(url, largeForm), post(url, largeForm)];
    await until(() => edge.gateway.requests.length === 2);
    const rejected = await post(url, largeForm);
    expect(rejected).toMatchObject({
      status: 503,
      headers: { 'retry-after': '1', 'countersign-outcome': 'not-sent' },
    });
    expect(JSON.parse(rejected.body)).toMatchObject({ reason: 'overloaded' });
    edge.gateway.reply = (response) => response.end('OK');
    expect((await post(url, 'a=b')).status).toBe(200);
    going.resolve();
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200]);
    expect((await post(url, largeForm)).status).toBe(200);
    expect(edge.gateway.requests).toHaveLength(4);
  });

  it('when it is used up, has large responses streamed, whole and unchanged', async () => {
    const edge = await startEdge({ config: smallest });
    stops.push(edge.stop);
    const body = Buffer.alloc(900_000, 'abc');
    edge.gateway.reply = (response) => response.end(body);
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => post(`${edge.proxy.url}${transfer}`, 'a=b')),
    );
    for (const answer of answers) {
      expect([answer.status, answer.complete, answer.body === body.toString('latin1')]).toEqual([
        200,
        true,
        true,
      ]);
    }
  });
});

it('300 clients with responses of 1 to 5 MB stay within 384 MiB', async () => {
  const limit = 384 * 1_048_576;
  const gateway = await startRecordingGateway();
  const process = spawnServe({
    config: configFor(
      gateway.url,
      { proxy: { port: 0, deadlines: { body: '2m', shutdownDelay: '0s' } }, signing: { queue: 1000 } },
      { deadlines: { exchange: '2m' } },
    ),
  });
  const group = limitMemory(limit);
  if (group === undefined) console.warn('No control group may be made here: only the peak is measured.');
  stops.push(
    process.clear,
    () => gateway.close(),
    () => group?.remove(),
  );
  const { url } = await process.started();
  const pid = process.child.pid ?? 0;
  group?.add(pid);
  let served = 0;
  gateway.reply = (response) => {
    served += 1;
    response.end(Buffer.alloc(1_000_000 * (1 + (served % 5))));
  };
  const answers = await Promise.all(
    Array.from({ length: 300 }, async () => {
      const { status, body, complete } = await post(`${url}${transfer}`, 'a=b');
      return `${status} ${complete} ${body.length >= 1_000_000}`;
    }),
  );
  expect(new Set(answers)).toEqual(new Set(['200 true true']));
  expect(peakMemory(pid) ?? 0).toBeLessThan(limit);
}, 120_000);
