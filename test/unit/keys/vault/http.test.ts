import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { isUnavailable, VaultError } from '../../../../src/keys/vault/errors.ts';
import { parseVaultResponse, Resender } from '../../../../src/keys/vault/http.ts';

function errorOf(status: number, body: unknown): VaultError {
  try {
    parseVaultResponse(status, typeof body === 'string' ? body : JSON.stringify(body));
  } catch (error) {
    if (error instanceof VaultError) return error;
  }
  throw new Error('no error');
}

describe('a Vault response', () => {
  it('is parsed if it is a success, and undefined if it has no body', () => {
    expect(parseVaultResponse(200, '{"data":1}')).toEqual({ data: 1 });
    expect(parseVaultResponse(204, '')).toBeUndefined();
  });

  it.each<[number, unknown, string, 'outage' | 'this path only']>([
    [200, '<html>', 'invalid-response', 'outage'],
    [201, { data: 1 }, 'invalid-response', 'outage'],
    [301, '', 'redirected', 'outage'],
    [307, '', 'redirected', 'outage'],
    [400, { errors: ['missing data'] }, 'rejected', 'this path only'],
    [400, { errors: ['check-and-set parameter did not match'] }, 'cas-mismatch', 'this path only'],
    [403, { errors: ['permission denied'] }, 'denied', 'this path only'],
    [404, { errors: [] }, 'not-found', 'this path only'],
    [404, { errors: ['no handler for route'] }, 'no-route', 'this path only'],
    [404, { data: { data: null, metadata: {} } }, 'deleted', 'this path only'],
    [404, '<html>', 'invalid-response', 'outage'],
    [405, {}, 'rejected', 'this path only'],
    [412, {}, 'behind', 'outage'],
    [418, {}, 'invalid-response', 'outage'],
    [429, {}, 'throttled', 'outage'],
    [472, {}, 'standby', 'outage'],
    [473, {}, 'standby', 'outage'],
    [500, {}, 'failing', 'outage'],
    [500, { errors: ['requested version for signing is higher'] }, 'rejected', 'this path only'],
    [501, {}, 'uninitialized', 'outage'],
    [502, {}, 'failing', 'outage'],
    [503, { errors: ['Vault is sealed'] }, 'sealed', 'outage'],
    [504, {}, 'failing', 'outage'],
  ])('%i with %j is %s, which is about %s', (status, body, kind, scope) => {
    const error = errorOf(status, body);
    expect(error).toMatchObject({ kind, status });
    expect(isUnavailable(error)).toBe(scope === 'outage');
  });
});

describe('of reads that wait for Vault', () => {
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
