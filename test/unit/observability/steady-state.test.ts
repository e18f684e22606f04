import { beforeEach, describe, expect, it } from '@jest/globals';
import { createSteadyState, type SteadyState } from '../../../src/observability/outages.ts';
import { ManualClock } from '../../support/stub-vault/clock.ts';

const second = 1000;

describe('whether a source is up', () => {
  let clock: ManualClock;
  let reports: string[];
  let state: SteadyState;

  beforeEach(() => {
    clock = new ManualClock();
    reports = [];
    state = createSteadyState({
      monotonic: clock.now,
      setTimer: clock.setTimer,
      report: (up, cause) => void reports.push(up ? 'up' : `down: ${cause}`),
    });
  });

  /** An outage of half a second, and as long after it. */
  function outage(): void {
    state.failed('throttled');
    clock.advance(0.5 * second);
    state.responded();
    clock.advance(0.5 * second);
  }

  it('is reported at once for an outage, and for a second one soon after it', () => {
    state.responded();
    outage();
    outage();
    expect(reports).toEqual(['up', 'down: throttled', 'up', 'down: throttled', 'up']);
  });

  it('is one state from the third outage within a minute, until half a minute without a failure', () => {
    for (let index = 0; index < 600; index += 1) outage();
    expect(reports.filter((report) => report === 'up')).toHaveLength(2);
    expect(reports.at(-1)).toBe('down: throttled');
    clock.advance(28 * second);
    state.responded();
    expect(reports.at(-1)).toBe('down: throttled');
    clock.advance(2 * second);
    expect(reports.at(-1)).toBe('up');
    expect(clock.nextTimer).toBeUndefined();
  });

  it('stays down if it fails again before that, and is up with the first response after a long outage', () => {
    for (let index = 0; index < 3; index += 1) outage();
    clock.advance(20 * second);
    state.failed('sealed');
    clock.advance(20 * second);
    expect(reports.at(-1)).toBe('down: sealed');
    clock.advance(20 * second);
    state.responded();
    expect(reports.at(-1)).toBe('up');
  });

  it('is not held back by outages that are further apart', () => {
    for (let index = 0; index < 5; index += 1) {
      outage();
      expect(reports.at(-1)).toBe('up');
      clock.advance(31 * second);
    }
  });
});
