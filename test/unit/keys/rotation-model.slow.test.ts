import { expect, it } from '@jest/globals';
import { Figures } from '../../rotation-model/figures.ts';
import { generate } from '../../rotation-model/generate.ts';
import { run } from '../../rotation-model/run.ts';

/** `npm run rotation-model` runs more of them. */
it('keeps its promises in 880 schedules, and few requests are rejected although the gateway is odd', async () => {
  const figures = new Figures();
  for (let seed = 121; seed <= 1_000; seed += 1) {
    const schedule = generate(seed);
    const { violations, timeline, figures: ofOne } = await run(schedule);
    if (violations.length > 0) throw new Error([`seed ${seed}`, ...timeline, ...violations].join('\n'));
    figures.addAll(ofOne, schedule.family);
  }
  const ofMillion = (requests: string, name: string): number =>
    (1e6 * figures.of(`odd: ${name}`)) / figures.of(`odd: ${requests}`);
  expect(ofMillion('queries', 'query 403: later than 2 s after gateway and Vault agree')).toBeLessThan(300);
  const late = 'payment 403: with a rejected key for more than 2 s, ';
  expect(ofMillion('payments', `${late}the ring is late`)).toBeLessThan(200);
  expect(ofMillion('payments', `${late}a better one is in the ring`)).toBeLessThan(2_000);
}, 600_000);
