import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { ProxyError } from '../../../../src/errors.ts';
import { createFormReader } from '../../../../src/proxy/inbound/read-form.ts';
import { MemoryBudget, unlimitedMemory } from '../../../../src/proxy/limits.ts';
import { garbageCollector } from '../../../support/garbage.ts';

const readForm = createFormReader({ maxBodyBytes: 100, maxParameters: 3, timeout: 5_000 });

let request: IncomingMessage;
beforeEach(() => {
  request = new IncomingMessage(new Socket());
});
afterEach(() => void jest.useRealTimers());

/** Reads a body in these chunks; `null` is its end. */
function read(chunks: readonly (string | null)[], memory = 1_000_000) {
  const reading = readForm(
    request,
    new ServerResponse(request),
    new MemoryBudget(2 * memory).reservation('billing'),
  );
  for (const chunk of chunks) request.push(chunk);
  return reading;
}

async function reasonOf(reading: Promise<unknown>): Promise<string> {
  const error: unknown = await reading.catch((reason: unknown) => reason);
  return error instanceof ProxyError ? error.reason : 'none';
}

describe('a body', () => {
  it('is read to its end, and its timeout is cancelled then, or when it is rejected', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
    expect(await read(['a=', '1&b=2', null])).toEqual([
      ['a', '1'],
      ['b', '2'],
    ]);
    request = new IncomingMessage(new Socket());
    expect(await reasonOf(read(['x'.repeat(101)]))).toBe('too-large');
    expect(jest.getTimerCount()).toBe(0);
  });

  it.each([
    ['100 bytes', `a=${'x'.repeat(98)}`, 'none'],
    ['101 bytes', `a=${'x'.repeat(99)}`, 'too-large'],
    ['three parameters', 'a&b&c', 'none'],
    ['four parameters', 'a&b&c&d', 'too-large'],
    ['four parameters of which one is empty', 'a&b&&c', 'too-large'],
  ])('of %s is checked against the limits', async (_, body, reason) => {
    expect(await reasonOf(read([body, null]))).toBe(reason);
  });

  it('is rejected if less memory than six times its size is left', async () => {
    expect(await reasonOf(read(['12345678', null], 48))).toBe('none');
    request = new IncomingMessage(new Socket());
    expect(await reasonOf(read(['12345678', null], 47))).toBe('overloaded');
  });

  it('in tiny chunks does not keep all of them: each would use hundreds of times its size', async () => {
    const large = createFormReader({ maxBodyBytes: 2_000, maxParameters: 3, timeout: 5_000 });
    const reading = large(request, new ServerResponse(request), unlimitedMemory());
    const chunks = Array.from({ length: 1_000 }, () => {
      const chunk = Buffer.alloc(1, 'x');
      request.push(chunk);
      return new WeakRef(chunk);
    });
    await new Promise((resolve) => setImmediate(resolve));
    garbageCollector()();
    expect(chunks.filter((chunk) => chunk.deref() !== undefined).length).toBeLessThan(300);
    request.push(null);
    expect(await reading).toEqual([['x'.repeat(1_000), '']]);
  });
});
