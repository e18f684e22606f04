import { describe, expect, it } from '@jest/globals';
import { Refusal } from '../../../src/errors.ts';
import type { Exchange } from '../../../src/exchange.ts';
import { InFlight } from '../../../src/proxy/in-flight.ts';

/** Whether the promise is settled by now. */
async function isDone(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  void promise.finally(() => {
    done = true;
  });
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  return done;
}

function exchange(fields: Partial<Exchange> = {}): Exchange {
  return { id: 'id', startedAt: 0, outcome: 'not-sent', attempts: 0, durations: {}, ...fields };
}

describe('requests in flight', () => {
  it('are idle at once when there are none', async () => {
    expect(await isDone(new InFlight().idle())).toBe(true);
  });

  it('are idle when the last one has ended', async () => {
    const inFlight = new InFlight();
    const [first, second] = [inFlight.enter(exchange()), inFlight.enter(exchange())];
    const idle = inFlight.idle();
    first.leave();
    expect(await isDone(idle)).toBe(false);
    second.leave();
    expect(await isDone(idle)).toBe(true);
  });

  it('are waited for also where there were none once before', async () => {
    const inFlight = new InFlight();
    inFlight.enter(exchange()).leave();
    await inFlight.idle();
    const { leave } = inFlight.enter(exchange());
    const idle = inFlight.idle();
    expect(await isDone(idle)).toBe(false);
    leave();
    expect(await isDone(idle)).toBe(true);
  });

  it.each([
    [exchange(), 'shutting-down', 'not-sent'],
    [exchange({ attempts: 1, written: true }), 'internal', 'unknown'],
  ])('end with their true outcome when they are aborted: %j', async (one, reason, outcome) => {
    const inFlight = new InFlight();
    const before = inFlight.enter(one).aborted;
    inFlight.abort();
    const after = inFlight.enter(one).aborted;
    for (const aborted of [before, after]) {
      const refusal: unknown = await aborted.catch((error: unknown) => error);
      expect(refusal).toBeInstanceOf(Refusal);
      expect(refusal).toMatchObject({ reason, outcome });
    }
  });
});
