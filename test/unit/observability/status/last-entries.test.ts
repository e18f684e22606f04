import { expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { LastEntries } from '../../../../src/observability/status/recorder.ts';

it('the last entries are those at the end of a list, newest first', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 9 }), fc.array(fc.nat(), { maxLength: 40 }), (limit, all) => {
      const last = new LastEntries<number>(limit);
      for (const entry of all) last.add(entry);
      expect(last.newestFirst()).toEqual(all.slice(-limit).toReversed());
    }),
  );
});
