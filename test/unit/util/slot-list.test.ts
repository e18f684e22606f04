import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { SlotList } from '../../../src/util/slot-list.ts';

describe('a slot list', () => {
  it('holds the items that were added and not removed, in any order', () => {
    const leaving = fc.array(fc.option(fc.nat({ max: 20 }), { nil: undefined }), { maxLength: 60 });
    fc.assert(
      fc.property(leaving, (steps) => {
        const slots = new SlotList<number>();
        const expected = new Map<number, () => void>();
        for (const [name, step] of steps.entries()) {
          const [leaver, leave] = [...expected][step ?? Number.NaN] ?? [];
          if (leaver === undefined || leave === undefined) expected.set(name, slots.add(name));
          else {
            leave();
            expected.delete(leaver);
          }
          expect(slots.values().toSorted((a, b) => a - b)).toEqual([...expected.keys()]);
        }
      }),
    );
  });
});
