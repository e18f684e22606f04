import { describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../src/errors.ts';
import { parseKeys } from '../../../src/keys/key.ts';
import { type KeyRing, usableKeys, withAccepted } from '../../../src/keys/ring.ts';
import { vectorText } from '../../support/vectors.ts';

const acme = { environment: 'sandbox', login: 'acme' };
const now = Date.UTC(2026, 0, 15, 12);
const gracePeriod = 86_400_000;
const pem = vectorText('keys/rsa-2048-pkcs8.pem');
const samePem = vectorText('keys/rsa-2048-pkcs1.pem');
const otherPem = vectorText('keys/rsa-4096-pkcs8.pem');

/** One version; superseded the given number of milliseconds ago, or current. */
function version(number: number, fields: Parameters<typeof parseKeys>[0], supersededFor?: number): KeyRing {
  const superseded = supersededFor === undefined ? {} : { supersededAt: new Date(now - supersededFor) };
  return parseKeys(fields, { version: number, ...superseded });
}

const versionsOf = (ring: KeyRing, kind: 'control_key' | 'private_key'): number[] =>
  usableKeys(acme, ring, kind, now, gracePeriod).map((key) => key.version);

function errorOf(ring: KeyRing, kind: 'control_key' | 'private_key'): ProxyError {
  try {
    usableKeys(acme, ring, kind, now, gracePeriod);
  } catch (error) {
    if (error instanceof ProxyError) return error;
  }
  throw new Error('no error');
}

describe('the usable keys of a login', () => {
  it('are those of the requested kind, newest first', () => {
    const ring = [
      ...version(3, { control_key: 'c3', private_key: pem }),
      ...version(2, { control_key: 'c2' }, 1),
      ...version(1, { private_key: otherPem }, 2),
    ];
    expect(versionsOf(ring, 'control_key')).toEqual([3, 2]);
    expect(versionsOf(ring, 'private_key')).toEqual([3, 1]);
  });

  it('contain each key once, with its newest version, however it is encoded', () => {
    const ring = [
      ...version(3, { control_key: 'same', private_key: pem }),
      ...version(2, { control_key: 'same', private_key: samePem }, 1),
      ...version(1, { control_key: 'other', private_key: otherPem }, 2),
    ];
    expect(versionsOf(ring, 'control_key')).toEqual([3, 1]);
    expect(versionsOf(ring, 'private_key')).toEqual([3, 1]);
  });

  it('do not contain one that was superseded before the grace period', () => {
    const ring = [
      ...version(3, { control_key: 'c3' }),
      ...version(2, { control_key: 'c2' }, gracePeriod),
      ...version(1, { control_key: 'c1' }, gracePeriod + 1),
    ];
    expect(versionsOf(ring, 'control_key')).toEqual([3, 2]);
  });

  it('are three at most: the two newest, and the accepted one if it is older', () => {
    const ring = ['c5', 'c4', 'c3', 'c2', 'c1'].flatMap((key, index) =>
      version(5 - index, { control_key: key }, index === 0 ? undefined : 1),
    );
    expect(versionsOf(ring, 'control_key')).toEqual([5, 4, 3]);
    const accepted = usableKeys(acme, ring.slice(3), 'control_key', now, gracePeriod);
    expect(versionsOf(withAccepted(ring, accepted.slice(1)), 'control_key')).toEqual([5, 4, 1]);
  });

  it('skip an unusable one if there is an older one', () => {
    const ring = [...version(2, { private_key: 'no PEM' }), ...version(1, { private_key: pem }, 1)];
    expect(versionsOf(ring, 'private_key')).toEqual([1]);
  });
});

describe('a login without a usable key of the kind', () => {
  it('is rejected with the version that cannot be used, and none of its content', () => {
    const error = errorOf(version(7, { private_key: 'MARK: no PEM' }), 'private_key');
    expect(error.reason).toBe('key-unusable');
    expect(error.detail).toBe(
      'Version 7 of login "acme" in environment "sandbox": the private key (field private_key) is not a PEM private key; store the file of the key whole, from its first line to its last.',
    );
  });

  it.each([
    ['control_key', 'control key (field control_key)', version(1, { private_key: pem })],
    ['private_key', 'RSA private key (field private_key)', version(1, { control_key: 'c1' })],
  ] as const)('is rejected as having no %s', (kind, text, ring) => {
    expect(errorOf(ring, kind)).toMatchObject({
      reason: 'key-missing',
      detail: `No ${text} for login "acme" in environment "sandbox". Ask the platform team to add it.`,
    });
  });

  it('is rejected if the grace period of its only key is over', () => {
    expect(errorOf(version(1, { control_key: 'c1' }, gracePeriod + 1), 'control_key').reason).toBe(
      'key-missing',
    );
  });
});
