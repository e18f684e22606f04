import { beforeEach, describe, expect, it } from '@jest/globals';
import { endless, type Patience, Waiting } from '../../../src/keys/waiting.ts';
import { ManualClock } from '../../support/stub-vault/clock.ts';
import { acme, refOf } from './scripted-source.ts';

let clock: ManualClock;
let waiting: Waiting;
beforeEach(() => {
  clock = new ManualClock();
  waiting = new Waiting({ monotonic: clock.now, setTimer: clock.setTimer });
});

const patience = (milliseconds: number, maxWaiting = 1): Patience => ({
  deadline: clock.now() + milliseconds,
  maxWaiting,
});

describe('the short waits of a request', () => {
  it('end together, a second after the first began', () => {
    const of = patience(30_000);
    const end = clock.now() + 1_000;
    expect(waiting.soon(of)).toBe(end);
    clock.advance(600);
    expect(waiting.soon(of)).toBe(end);
    expect(waiting.soon(endless)).toBe(end + 600);
  });

  it('end at its deadline if that is sooner', () => {
    expect(waiting.soon(patience(300))).toBe(clock.now() + 300);
  });
});

describe('for keys that are not cached', () => {
  it('as many requests wait as each login may have, and twice as many of all logins of an environment', async () => {
    const work = Promise.withResolvers<void>();
    const wait = (login = acme): Promise<boolean> =>
      waiting.forUncached(login, patience(1_000), work.promise);
    const first = wait();
    expect(await wait()).toBe(false);
    const others = [wait(refOf('b')), wait({ ...acme, environment: 'other' })];
    expect(await wait(refOf('c'))).toBe(false);
    work.resolve();
    expect(await Promise.all([first, ...others])).toEqual([true, true, true]);
    expect(await wait()).toBe(true);
  });
});
