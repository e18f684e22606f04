import { describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../../src/errors.ts';
import { InFlight } from '../../../../src/proxy/inbound/inflight-handlers.ts';

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

describe('requests in flight', () => {
  it('are idle at once when there are none', async () => {
    expect(await isDone(new InFlight().idle())).toBe(true);
  });

  it('are idle when the last one has ended', async () => {
    const inFlight = new InFlight();
    const [first, second] = [inFlight.enter(), inFlight.enter()];
    const idle = inFlight.idle();
    first.leave();
    expect(await isDone(idle)).toBe(false);
    second.leave();
    expect(await isDone(idle)).toBe(true);
  });

  it('are waited for also where there were none once before', async () => {
    const inFlight = new InFlight();
    inFlight.enter().leave();
    await inFlight.idle();
    const { leave } = inFlight.enter();
    const idle = inFlight.idle();
    expect(await isDone(idle)).toBe(false);
    leave();
    expect(await isDone(idle)).toBe(true);
  });

  it('are waited for anew after they were waited for once', async () => {
    const inFlight = new InFlight();
    for (let nth = 0; nth < 2; nth += 1) {
      const { leave } = inFlight.enter();
      const idle = inFlight.idle();
      expect(await isDone(idle)).toBe(false);
      leave();
      expect(await isDone(idle)).toBe(true);
    }
  });

  it('end when they are aborted, and those that come later at once', async () => {
    const inFlight = new InFlight();
    const before = inFlight.enter().aborted;
    inFlight.abort();
    const after = inFlight.enter().aborted;
    for (const aborted of [before, after]) {
      const refusal: unknown = await aborted.catch((error: unknown) => error);
      expect(refusal).toBeInstanceOf(ProxyError);
      expect(refusal).toMatchObject({ reason: 'shutting-down', outcome: 'not-sent' });
    }
  });
});
