import { expect, it } from '@jest/globals';
import { simulate } from './simulation.ts';

it('of 250,000 posts no payment is sent twice, and no outcome is a lie', async () => {
  for (let seed = 1; seed <= 5; seed += 1) {
    const { doubled, lies } = await simulate({ seed, posts: 50_000 });
    expect({ seed, doubled, lies }).toEqual({ seed, doubled: 0, lies: [] });
  }
}, 300_000);
