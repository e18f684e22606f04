import { describe, expect, it } from '@jest/globals';
import { Refusal } from '../../../src/errors.ts';
import { parseKeys } from '../../../src/keys/key.ts';
import { Preferences, usableKeys } from '../../../src/keys/ring.ts';
import type { KeyRing, UsableKey } from '../../../src/keys/source.ts';
import { reveal } from '../../../src/secret.ts';
import { vectorText } from '../../support/vectors.ts';

const acme = { environment: 'sandbox', login: 'acme' };
const now = Date.UTC(2026, 0, 15, 12);
const overlap = 86_400_000;
const pem = vectorText('keys/rsa-2048-pkcs8.pem');
const samePem = vectorText('keys/rsa-2048-pkcs1.pem');
const otherPem = vectorText('keys/rsa-4096-pkcs8.pem');

/** One version; superseded so many milliseconds ago, unless it is the current one. */
function version(number: number, fields: Parameters<typeof parseKeys>[0], supersededFor?: number): KeyRing {
  const superseded = supersededFor === undefined ? {} : { supersededAt: new Date(now - supersededFor) };
  return parseKeys(fields, { version: number, ...superseded });
}

const versionsOf = (ring: KeyRing, kind: 'control_key' | 'private_key'): number[] =>
  usableKeys(acme, ring, kind, now, overlap).map((key) => key.version);

function refusalOf(ring: KeyRing, kind: 'control_key' | 'private_key'): Refusal {
  try {
    usableKeys(acme, ring, kind, now, overlap);
  } catch (error) {
    if (error instanceof Refusal) return error;
  }
  throw new Error('not refused');
}

describe('the usable keys of a login', () => {
  it('are those of the kind asked for, newest first', () => {
    const ring = [
      ...version(3, { control_key: 'c3', private_key: pem }),
      ...version(2, { control_key: 'c2' }, 1),
      ...version(1, { private_key: otherPem }, 2),
    ];
    expect(versionsOf(ring, 'control_key')).toEqual([3, 2]);
    expect(versionsOf(ring, 'private_key')).toEqual([3, 1]);
  });

  it('hold each key once, under its newest version, however it is written', () => {
    const ring = [
      ...version(3, { control_key: 'same', private_key: pem }),
      ...version(2, { control_key: 'same', private_key: samePem }, 1),
      ...version(1, { control_key: 'other', private_key: otherPem }, 2),
    ];
    expect(versionsOf(ring, 'control_key')).toEqual([3, 1]);
    expect(versionsOf(ring, 'private_key')).toEqual([3, 1]);
  });

  it('do not hold one that was superseded longer ago than the overlap', () => {
    const ring = [
      ...version(3, { control_key: 'c3' }),
      ...version(2, { control_key: 'c2' }, overlap),
      ...version(1, { control_key: 'c1' }, overlap + 1),
    ];
    expect(versionsOf(ring, 'control_key')).toEqual([3, 2]);
  });

  it('pass over one that cannot be used while there is an older one', () => {
    const ring = [...version(2, { private_key: 'no PEM' }), ...version(1, { private_key: pem }, 1)];
    expect(versionsOf(ring, 'private_key')).toEqual([1]);
  });
});

describe('a login without a usable key of the kind', () => {
  it('is refused with the version that cannot be used, and none of its content', () => {
    const refusal = refusalOf(version(7, { private_key: 'MARK: no PEM' }), 'private_key');
    expect(refusal.reason).toBe('key-unusable');
    expect(refusal.detail).toBe(
      'Version 7 of login "acme" in environment "sandbox": the private key is not a PEM private key.',
    );
  });

  it.each([
    ['control_key', 'control key (field control_key)', version(1, { private_key: pem })],
    ['private_key', 'RSA private key (field private_key)', version(1, { control_key: 'c1' })],
  ] as const)('is refused as having no %s', (kind, text, ring) => {
    expect(refusalOf(ring, kind)).toMatchObject({
      reason: 'key-missing',
      detail: `There is no ${text} for login "acme" in environment "sandbox". Have the platform team add it.`,
    });
  });

  it('is refused when its only key is beyond the overlap', () => {
    expect(refusalOf(version(1, { control_key: 'c1' }, overlap + 1), 'control_key').reason).toBe(
      'key-missing',
    );
  });
});

describe('preferences', () => {
  const ring = (...controlKeys: string[]): readonly [UsableKey, ...UsableKey[]] => {
    const all = controlKeys.flatMap((key, index) =>
      version(controlKeys.length - index, { control_key: key }, index === 0 ? undefined : index),
    );
    return usableKeys(acme, all, 'control_key', now, overlap);
  };
  const textOf = (key: UsableKey | undefined): string =>
    key?.key.kind === 'control_key' ? reveal(key.key.secret) : 'none';

  it('choose the newest key where nothing is known', () => {
    expect(textOf(new Preferences().choose(acme, ring('b', 'a')))).toBe('b');
  });

  it('choose the accepted key for as long as the newest one stays the same', () => {
    const preferences = new Preferences();
    const keys = ring('b', 'a');
    preferences.accepted(acme, keys, keys[1] ?? keys[0]);
    expect(textOf(preferences.choose(acme, ring('b', 'a')))).toBe('a');
    expect(textOf(preferences.choose(acme, ring('c', 'b', 'a')))).toBe('c');
    expect(textOf(preferences.choose(acme, ring('b')))).toBe('b');
  });

  it('end when the newest key is accepted', () => {
    const preferences = new Preferences();
    const keys = ring('b', 'a');
    preferences.accepted(acme, keys, keys[1] ?? keys[0]);
    preferences.accepted(acme, keys, keys[0]);
    expect(textOf(preferences.choose(acme, keys))).toBe('b');
  });

  it('of one environment are not those of another', () => {
    const preferences = new Preferences();
    const keys = ring('b', 'a');
    preferences.accepted({ ...acme, environment: 'production' }, keys, keys[1] ?? keys[0]);
    expect(textOf(preferences.choose(acme, keys))).toBe('b');
  });

  it('offer in place of a refused key the one taken last, then the others in turn', () => {
    const preferences = new Preferences();
    const keys = ring('d', 'c', 'b', 'a');
    const [newest] = keys;
    const next = (): string => {
      const key = preferences.instead(acme, keys, newest);
      if (key !== undefined) preferences.triedInVain(acme, key);
      return textOf(key);
    };
    expect([next(), next(), next(), next()]).toEqual(['c', 'b', 'a', 'c']);
    const b = keys.find((key) => textOf(key) === 'b');
    if (b !== undefined) preferences.taken(acme, b);
    expect([next(), next(), next(), next()]).toEqual(['b', 'c', 'a', 'b']);
  });

  it('offer nothing in place of the only key', () => {
    const keys = ring('a');
    expect(new Preferences().instead(acme, keys, keys[0])).toBeUndefined();
  });

  describe('for a request that cannot be sent again', () => {
    const careful = (preferences: Preferences, keys = ring('b', 'a')): string =>
      textOf(preferences.choose(acme, keys, 'careful'));
    const oldest = (keys: ReturnType<typeof ring>): UsableKey => keys.at(-1) ?? keys[0];

    it('choose what was taken last, though a newer key has come', () => {
      const preferences = new Preferences();
      preferences.taken(acme, oldest(ring('a')));
      expect(careful(preferences)).toBe('a');
      expect(textOf(preferences.choose(acme, ring('b', 'a')))).toBe('b');
    });

    it('choose the newest as soon as it was taken', () => {
      const preferences = new Preferences();
      preferences.taken(acme, oldest(ring('a')));
      preferences.taken(acme, ring('b', 'a')[0]);
      expect(careful(preferences)).toBe('b');
    });

    it('choose the newest when the one taken last is gone', () => {
      const preferences = new Preferences();
      preferences.taken(acme, oldest(ring('a')));
      expect(careful(preferences, ring('c', 'b'))).toBe('c');
    });

    it('choose another one after a refusal, and stay with it once it is taken', () => {
      const preferences = new Preferences();
      const keys = ring('b', 'a');
      preferences.taken(acme, oldest(keys));
      preferences.doubted(acme, oldest(keys));
      expect(careful(preferences)).toBe('b');
      preferences.taken(acme, keys[0]);
      expect(careful(preferences)).toBe('b');
    });

    it('go back to what was taken last when the other one is refused as well', () => {
      const preferences = new Preferences();
      const keys = ring('b', 'a');
      preferences.taken(acme, oldest(keys));
      preferences.doubted(acme, oldest(keys));
      preferences.doubted(acme, keys[0]);
      expect(careful(preferences)).toBe('a');
    });
  });
});
