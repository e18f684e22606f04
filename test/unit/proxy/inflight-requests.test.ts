import { describe, expect, it } from '@jest/globals';
import { InflightRequests } from '../../../src/proxy/inflight-requests.ts';

/** Whether the promise is already settled. */
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
  it('are idle if there are none, and each time after the last one has ended', async () => {
    const inflight = new InflightRequests();
    for (let nth = 0; nth < 2; nth += 1) {
      expect(await isDone(inflight.idle())).toBe(true);
      const [first, second] = [inflight.begin(), inflight.begin()];
      const idle = inflight.idle();
      first.end();
      expect(await isDone(idle)).toBe(false);
      second.end();
      expect(await isDone(idle)).toBe(true);
    }
  });

  it('end when they are aborted, and later ones end immediately', async () => {
    const inflight = new InflightRequests();
    const before = inflight.begin().aborted.catch((error: unknown) => error);
    inflight.assertAccepting();
    await inflight.abortAll();
    expect(() => inflight.assertAccepting()).toThrow('shutting-down');
    const after = inflight.begin().aborted.catch((error: unknown) => error);
    for (const aborted of [before, after]) {
      expect(await aborted).toMatchObject({
        reason: 'shutting-down',
        outcome: 'not-sent',
        detail: 'Shutting down; nothing was sent. Send the request again.',
        headers: { 'Retry-After': '1' },
      });
    }
  });
});
