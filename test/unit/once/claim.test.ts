import { createSecretKey } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { array, assert, pre, property, string, tuple } from 'fast-check';
import { claimName, claimText, formDigest, keyId, parseClaim } from '../../../src/once/claim.ts';
import { MemoryStore } from '../../../src/once/memory-store.ts';
import { StoreUnavailable } from '../../../src/once/store.ts';

const [key, other] = [1, 2].map((fill) => createSecretKey(Buffer.alloc(32, fill)));
if (key === undefined || other === undefined) throw new TypeError('no keys');

const order = { environment: 'sandbox', login: 'acme', operation: 'transfer', orderId: 'a' };

describe('the name of a claim', () => {
  it('differs with each part of an order, and with the key', () => {
    const orders = [
      order,
      { ...order, environment: 'production' },
      { ...order, login: 'beta' },
      { ...order, operation: 'sale' },
      { ...order, orderId: 'A' },
      { ...order, orderId: 'a ' },
      // The same characters in other parts.
      { ...order, login: 'acm', operation: 'etransfer' },
    ];
    const names = [...orders.map((one) => claimName(key, one)), claimName(other, order)];
    expect(new Set(names).size).toBe(names.length);
  });

  it('does not hold the order ID', () => {
    const name = claimName(key, { ...order, orderId: '4111111111111111' });
    expect(name).toMatch(/^[\w-]{43}$/);
    expect(name).not.toContain('4111');
  });
});

const pairs = array(tuple(string({ unit: 'binary' }), string({ unit: 'binary' })), {
  maxLength: 8,
});

describe('the digest of a form', () => {
  it('is the same for the same pairs in any order, and however order ID and login came', () => {
    assert(
      property(pairs, (form) => {
        const reversed = form.toReversed();
        expect(formDigest(key, {}, [...form, ['client_orderid', 'a']])).toBe(
          formDigest(key, {}, [['client-order-id', 'a'], ['login', 'acme'], ...reversed]),
        );
      }),
    );
  });

  it('differs if a pair does', () => {
    assert(
      property(pairs, pairs, (a, b) => {
        const sorted = (form: typeof a): string =>
          JSON.stringify(form.map((pair) => JSON.stringify(pair)).sort());
        pre(sorted(a) !== sorted(b));
        const named = ({ 0: name }: [string, string]): boolean => /^(client[_-]order|login)/.test(name);
        pre(!a.some(named) && !b.some(named));
        expect(formDigest(key, {}, a)).not.toBe(formDigest(key, {}, b));
      }),
    );
  });
});

it('the digest of a form differs with the endpoint', () => {
  const places = [{}, { endpoint: '1' }, { endpoint: '2' }, { endpointGroup: '1' }];
  expect(new Set(places.map((place) => formDigest(key, place, []))).size).toBe(places.length);
});

it('a claim is read as it was written', () => {
  const claim = { requestId: '6d0b1a9c-52a6-4d1b-a7d8-0c8f9a4b2f11', form: 'f', at: 5, end: undefined };
  const ended = { ...claim, end: { outcome: 'answered', status: 200 } } as const;
  expect(parseClaim(claimText(claim))).toEqual(claim);
  expect(parseClaim(claimText(ended))).toEqual(ended);
});

it.each([
  '',
  'garbage',
  '[]',
  'null',
  '{"requestId":"<b>","form":"f","at":1}',
  '{"requestId":"a","form":"f","at":9e99}',
])('what is no claim is none: %s', (text) => expect(parseClaim(text)).toBeUndefined());

it('the ID of a key says only whether it is the same', () => {
  expect(keyId(key)).toMatch(/^[\w-]{12}$/);
  expect(keyId(key)).not.toBe(keyId(other));
});

describe('the store in memory', () => {
  const report = () => {};

  it('keeps a claim for its time, and then takes another one', async () => {
    let now = 0;
    const store = new MemoryStore({ ttl: 100, monotonic: () => now, report });
    expect(await store.claim('a', 'first')).toBeUndefined();
    now = 99;
    expect(await store.claim('a', 'second')).toBe('first');
    now = 100;
    expect(await store.claim('a', 'second')).toBeUndefined();
  });

  it('replaces and removes exactly the claim that is named', async () => {
    const store = new MemoryStore({ ttl: 100, monotonic: () => 0, report });
    await store.claim('a', 'first');
    await store.replace('a', 'other');
    expect(await store.claim('a', 'next')).toBe('first');
    await store.replace('a', 'first', 'ended');
    await store.replace('a', 'first');
    expect(await store.claim('a', 'next')).toBe('ended');
    await store.replace('a', 'ended');
    expect(await store.claim('a', 'next')).toBeUndefined();
  });

  it('takes no more claims when it is full, rather than forget one', async () => {
    let now = 0;
    const states: boolean[] = [];
    const store = new MemoryStore({
      ttl: 100,
      monotonic: () => now,
      max: 2,
      report: (up) => states.push(up),
    });
    await store.claim('a', 'x');
    await store.claim('b', 'x');
    await expect(store.claim('c', 'x')).rejects.toThrow(StoreUnavailable);
    expect(await store.claim('a', 'y')).toBe('x');
    now = 100;
    expect(await store.claim('c', 'x')).toBeUndefined();
    expect(states).toEqual([true, true, false, true]);
  });
});
