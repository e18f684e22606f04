import { beforeEach, describe, expect, it } from '@jest/globals';
import { KeyChoice } from '../../../src/keys/choice.ts';
import type { UsableKey } from '../../../src/keys/ring.ts';
import { Random } from '../../support/random.ts';
import { ringOf, textOf, usable } from './scripted-source.ts';

/** Of payments. */
const place = { caller: 'shop', endpoint: '7', readOnly: false };
const elsewhere = { ...place, endpoint: '8' };
const ofOther = { ...place, caller: 'other' };
const ofQueries = { ...place, readOnly: true };

let now: number;
let choice: KeyChoice;
beforeEach(() => {
  now = 0;
});

function has(...controlKeys: readonly string[]): void {
  const random = new Random(1);
  choice = new KeyChoice(usable(ringOf(...controlKeys)), () => random.next());
}
const becomes = (...controlKeys: readonly string[]): void => choice.update(usable(ringOf(...controlKeys)));
const keyOf = (text: string): UsableKey => usable(ringOf(text))[0];
const current = (): string => textOf(choice.current);

/** The gateway accepted the key, in a request that was sent at a time. */
const accept = (text: string, sentAt = now, where = place): boolean =>
  choice.recordAccepted(keyOf(text), sentAt, where, now);
const reject = (text: string, where = place): void => choice.recordRejected(keyOf(text), where);
/** The key that a payment tries; `undefined`: the current one signs. */
function trial(where = place): string | undefined {
  const key = choice.beginTrial(where, now);
  return key && textOf(key);
}

describe('the current key', () => {
  it('is not moved back by a slow response to a request before its last accepted one', () => {
    has('new', 'old');
    accept('new', 1);
    accept('new', 5);
    now = 9;
    expect(accept('old', 4)).toBe(false);
    expect([current(), choice.acceptedAt]).toEqual(['new', 9]);
    expect(accept('old', 6)).toBe(true);
    expect(current()).toBe('old');
  });

  it('is the newest when it leaves the ring, and stays when others do', () => {
    has('new', 'mid', 'old');
    accept('mid');
    becomes('newer', 'new', 'mid');
    expect(current()).toBe('mid');
    becomes('newer', 'new');
    expect(current()).toBe('newer');
    expect(choice.accepted).toBeUndefined();
    expect(accept('mid')).toBe(false);
    expect(current()).toBe('newer');
  });

  it('has the version that it was last read with', () => {
    has('key');
    const signedWith = choice.current;
    becomes('key', 'other');
    choice.recordAccepted(signedWith, now, place, now);
    expect(choice.current.version).toBe(2);
  });
});

describe('a rejection', () => {
  it('is shown until the key is accepted or leaves the ring', () => {
    has('new', 'old');
    reject('new');
    reject('old');
    expect(choice.isRejected(keyOf('new'))).toBe(true);
    accept('new');
    expect(choice.isRejected(keyOf('new'))).toBe(false);
    becomes('newer', 'new');
    becomes('newer', 'new', 'old');
    expect(choice.isRejected(keyOf('old'))).toBe(false);
  });
});

describe('other keys are tried', () => {
  /** Times within a minute at which a step may be taken, each as soon as it may. */
  function stepsOf(where = place): number[] {
    const taken: number[] = [];
    for (const end = now + 40_000; now < end; now += 100) if (choice.takeStep(where, now)) taken.push(now);
    return taken;
  }

  it('at steps of 1, 2, 4, 8 and 10 s', () => {
    has('new', 'old');
    expect(stepsOf()).toEqual([0, 1_000, 3_000, 7_000, 15_000, 25_000, 35_000]);
  });

  it('apart for each caller and endpoint, for queries and payments, and never without another key', () => {
    has('only');
    expect(choice.takeStep(place, now)).toBe(false);
    has('new', 'old');
    expect(choice.takeStep(place, now)).toBe(true);
    expect(choice.takeStep(place, now)).toBe(false);
    expect(choice.takeStep(elsewhere, now)).toBe(true);
    expect(choice.takeStep(ofOther, now)).toBe(true);
    expect(choice.takeStep(ofQueries, now)).toBe(true);
  });

  it.each([
    ['the ring is another one', () => becomes('newer', 'new', 'old')],
    ['the source is back', () => choice.resetSteps()],
    ['another key was accepted', () => void accept('old', 1)],
  ])('at once when %s', (_when, happens) => {
    has('new', 'old');
    stepsOf();
    // The same keys were read again.
    becomes('new', 'old');
    expect(choice.takeStep(place, now)).toBe(false);
    happens();
    expect(choice.takeStep(place, now)).toBe(true);
    now += 1_000;
    expect(choice.takeStep(place, now)).toBe(true);
  });

  it('at eight endpoints of a caller, which push out none of another one', () => {
    has('new', 'old');
    const at = (endpoint: number, caller = 'shop') => ({ ...place, caller, endpoint: `${endpoint}` });
    choice.takeStep(at(0, 'other'), now);
    for (let endpoint = 0; endpoint < 20; endpoint += 1) choice.takeStep(at(endpoint), now);
    const known = Array.from({ length: 20 }, (_, endpoint) => !choice.takeStep(at(endpoint), now));
    expect(known.filter(Boolean).length).toBeLessThanOrEqual(8);
    expect(choice.takeStep(at(0, 'other'), now)).toBe(false);
  });

  it('for payments at more endpoints than are remembered, in turn', () => {
    const count = 30;
    has('new', 'old');
    const at = (endpoint: number) => ({ ...place, endpoint: `${endpoint}` });
    const keys = Array.from({ length: 10 * count }, (_, nth) => {
      const key = choice.beginTrial(at(nth % count), now);
      reject('new', at(nth % count));
      return key;
    });
    expect(keys.filter((key) => key !== undefined).length).toBeGreaterThan(0);
  });
});

describe('a payment', () => {
  it('tries another key only after a rejected one of its caller and endpoint', () => {
    has('new', 'old');
    reject('new', ofQueries);
    expect(trial()).toBeUndefined();
    reject('new');
    expect([trial(elsewhere), trial(ofOther)]).toEqual([undefined, undefined]);
    expect(trial()).toBe('old');
  });

  it('tries none after the current key was accepted there, and still does after it was elsewhere', () => {
    has('new', 'old');
    reject('new');
    accept('new', now, elsewhere);
    accept('new', now, ofOther);
    expect(trial()).toBe('old');
    choice.endTrial(place);
    now = 5_000;
    accept('new');
    expect(trial()).toBeUndefined();
  });

  it('tries none because of what was rejected before another key became the current one', () => {
    has('new', 'old');
    for (const where of [place, elsewhere, ofOther]) reject('new', where);
    accept('old', 1, ofOther);
    reject('new');
    expect([trial(), trial(elsewhere), trial(ofOther)]).toEqual([undefined, undefined, undefined]);
  });

  it('tries the other keys in turn, at the steps, while they are rejected too', () => {
    has('new', 'mid', 'old');
    reject('new');
    const tried: string[] = [];
    for (; now < 9_000; now += 500) {
      const key = trial();
      if (key !== undefined) tried.push(`${now} ${key}`);
      if (key !== undefined) choice.takeStep(place, now);
      choice.endTrial(place);
    }
    expect(tried).toEqual(['0 mid', '1000 old', '3000 mid', '7000 old']);
  });

  it('is the only one of its caller that does so, for a second at most', () => {
    has('new', 'old');
    for (const where of [place, elsewhere, ofOther]) reject('new', where);
    expect([trial(), trial(elsewhere), trial(ofOther)]).toEqual(['old', undefined, 'old']);
    choice.endTrial(place);
    expect(trial(elsewhere)).toBe('old');
    now += 999;
    expect(trial()).toBeUndefined();
    now += 1;
    expect(trial()).toBe('old');
  });
});
