import { describe, expect, it } from '@jest/globals';
import { abortable, SingleFlight } from '../../../src/util/promises.ts';

it('shares a run with the calls that come during it, also its failure, and begins a new one after it', async () => {
  const flight = new SingleFlight<number>();
  const { promise, reject } = Promise.withResolvers<number>();
  const first = flight.run(() => promise);
  const second = flight.run(() => Promise.resolve(2));
  expect([flight.running, second]).toEqual([first, first]);
  reject(new Error('failed'));
  await expect(second).rejects.toThrow('failed');
  expect(flight.running).toBeUndefined();
  expect(await flight.run(() => Promise.resolve(3))).toBe(3);
});

describe('work that a signal may abort', () => {
  const never = new Promise<string>(() => {});

  it('ends with its own result unless it is aborted', async () => {
    const { signal } = new AbortController();
    expect(await abortable(Promise.resolve('result'), signal)).toBe('result');
    await expect(abortable(Promise.reject(new Error('failed')), signal)).rejects.toThrow('failed');
  });

  it('fails with the reason of the signal, also if that was aborted before', async () => {
    const controller = new AbortController();
    const running = abortable(never, controller.signal);
    const reason = new Error('too late');
    controller.abort(reason);
    await expect(running).rejects.toBe(reason);
    await expect(abortable(never, controller.signal)).rejects.toBe(reason);
  });
});
