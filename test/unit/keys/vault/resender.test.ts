import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { VaultError } from '../../../../src/keys/vault/errors.ts';
import { Resender } from '../../../../src/keys/vault/http.ts';

const second = 1_000;

let resender: Resender;
/** Copies of reads in the order in which they were sent, each with how it ends. */
let sent: (PromiseWithResolvers<string> & { readonly name: string })[];

beforeEach(() => {
  jest.useFakeTimers();
  resender = new Resender();
  sent = [];
});
afterEach(() => {
  jest.useRealTimers();
});

function read(name: string): Promise<string> {
  return resender.send(({ freshSocket }) => {
    const copy = Promise.withResolvers<string>();
    sent.push({ ...copy, name: freshSocket === true ? `${name} again` : name });
    return copy.promise;
  });
}

const names = (): string[] => sent.map(({ name }) => name);

describe('of reads that wait for Vault', () => {
  it('one is sent again each second, and the others once that has a response', async () => {
    const [first, other, third] = [read('a'), read('b'), read('c')];
    await jest.advanceTimersByTimeAsync(second);
    expect(names()).toEqual(['a', 'b', 'c', 'a again']);
    sent[3]?.resolve('response');
    expect(await first).toBe('response');
    expect(names().slice(4)).toEqual(['b again', 'c again']);
    sent[1]?.resolve('of the first copy');
    sent[5]?.resolve('of the second copy');
    expect(await Promise.all([other, third])).toEqual(['of the first copy', 'of the second copy']);
  });

  it('the others are not sent again if the one that is finds Vault unavailable', async () => {
    const first = read('a');
    void read('b');
    await jest.advanceTimersByTimeAsync(second);
    sent[2]?.reject(new VaultError('sealed'));
    await jest.advanceTimersByTimeAsync(second - 2);
    expect(names()).toEqual(['a', 'b', 'a again']);
    await jest.advanceTimersByTimeAsync(2);
    expect(names()).toHaveLength(4);
    sent[0]?.reject(new VaultError('timeout'));
    await expect(first).rejects.toMatchObject({ kind: 'timeout' });
  });

  it('end with what Vault responds to the second copy, also if that is an error', async () => {
    const first = read('a');
    await jest.advanceTimersByTimeAsync(second);
    sent[1]?.reject(new VaultError('denied'));
    await expect(first).rejects.toMatchObject({ kind: 'denied' });
  });
});
