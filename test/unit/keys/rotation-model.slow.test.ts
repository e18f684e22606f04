import { expect, it } from '@jest/globals';
import { generate } from '../../rotation-model/generate.ts';
import { run } from '../../rotation-model/run.ts';
import { increment } from '../../support/command.ts';

/** `npm run rotation-model` runs more of them. */
it('keeps its promises in 440 schedules, and few requests are rejected although the gateway is odd', async () => {
  const ofOdd = new Map<string, number>();
  for (let seed = 41; seed <= 480; seed += 1) {
    const schedule = generate(seed);
    const { violations, timeline, figures } = await run(schedule);
    if (violations.length > 0) throw new Error([`seed ${seed}`, ...timeline, ...violations].join('\n'));
    if (schedule.family === 'odd') for (const [name, count] of figures) increment(ofOdd, name, count);
  }
  const ofMillion = (requests: string, name: string): number =>
    (1e6 * (ofOdd.get(name) ?? 0)) / (ofOdd.get(requests) ?? 0);
  expect(ofMillion('queries', 'query 403: later than 2 s after gateway and Vault agree')).toBeLessThan(300);
  expect(ofMillion('payments', 'payment 403: with a rejected key for more than 2 s')).toBeLessThan(2_000);
}, 600_000);
