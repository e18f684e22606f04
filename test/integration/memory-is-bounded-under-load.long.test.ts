import { expect, it } from '@jest/globals';
import { paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { limitMemory, peakMemory } from '../support/memory-limit.ts';

const starts = harness();

it('300 clients with responses of 1 to 5 MB stay within 384 MiB', async () => {
  const limit = 384 * 1_048_576;
  const gateway = await starts.recordingGateway();
  const process = await starts.process({
    gateway: gateway.url,
    config: {
      proxy: { port: 0, timeouts: { body: '2m', shutdownDelay: '0s' } },
      signing: { maxQueue: 1000 },
    },
    sandbox: { timeouts: { request: '2m' } },
  });
  const group = limitMemory(limit);
  if (group === undefined) console.warn('No control group may be made here: only the peak is measured.');
  const pid = process.child.pid ?? 0;
  group?.add(pid);
  starts.atEnd(() => process.ended.then(() => group?.remove()));
  // Its keys are read once, before all of them come at once.
  expect((await process.transfer()).status).toBe(200);
  let served = 0;
  gateway.respond = (response) => {
    served += 1;
    response.end(Buffer.alloc(1_000_000 * (1 + (served % 5))));
  };
  const responses = await Promise.all(
    Array.from({ length: 300 }, async () => {
      const { status, body, complete } = await process.post(paths.transfer, 'client_orderid=1');
      return `${status} ${complete} ${body.length >= 1_000_000}`;
    }),
  );
  expect(new Set(responses)).toEqual(new Set(['200 true true']));
  expect(peakMemory(pid) ?? 0).toBeLessThan(limit);
}, 120_000);
