import { describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../src/errors.ts';
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
    await inflight.abortAll();
    const after = inflight.begin().aborted.catch((error: unknown) => error);
    for (const aborted of [before, after]) {
      const error: unknown = await aborted;
      expect(error).toBeInstanceOf(ProxyError);
      expect(error).toMatchObject({
        reason: 'shutting-down',
        outcome: 'not-sent',
        detail: 'Shutting down; nothing was sent. Send the request again.',
        headers: { 'Retry-After': '1' },
      });
    }
  });

  it('have their upstream requests aborted first, so that each can end with its own outcome', async () => {
    const inflight = new InflightRequests();
    const order: string[] = [];
    const { promise: response, reject } = Promise.withResolvers<never>();
    const { aborted } = inflight.begin();
    aborted.catch(() => order.push('request'));
    void recordOutcome();
    inflight.trackUpstream({ response, abort: () => reject(new Error('aborted')) });
    expect(() => inflight.assertAccepting()).not.toThrow();
    const end = inflight.abortAll();
    expect(() => inflight.assertAccepting()).toThrow(ProxyError);
    await end;
    expect(await isDone(aborted.catch(() => {}))).toBe(true);
    expect(order).toEqual(['upstream request', 'request']);

    /** As a request does, after several steps. */
    async function recordOutcome(): Promise<void> {
      await response.catch(() => {});
      for (let step = 0; step < 10; step += 1) await Promise.resolve();
      order.push('upstream request');
    }
  });

  it('do not include upstream requests that have ended', async () => {
    const inflight = new InflightRequests();
    let aborts = 0;
    inflight.trackUpstream({ response: Promise.resolve(), abort: () => void (aborts += 1) });
    inflight.trackUpstream({ response: Promise.reject(new Error('reset')), abort: () => void (aborts += 1) });
    await isDone(Promise.resolve());
    await inflight.abortAll();
    expect(aborts).toBe(0);
  });
});
