import { sign } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { SignRemotely } from '../../../../src/keys/key-source.ts';
import type { AuthenticatedClient } from '../../../../src/keys/vault/client.ts';
import { VaultError, type VaultErrorKind } from '../../../../src/keys/vault/errors.ts';
import { createTransitSigner, isTransitName, TransitEngine } from '../../../../src/keys/vault/transit.ts';
import { ManualClock } from '../../../support/stub-vault/clock.ts';
import { privateKeyOf, publicKeyOf } from '../../../support/vectors.ts';

const acme = { environment: 'sandbox', login: 'acme' };
const key = {
  kind: 'private_key',
  publicKey: publicKeyOf('rsa-2048-public.pem'),
  mount: 'transit',
  name: 'acme-key',
  keyVersion: 3,
} as const;
const signature = sign('sha256', Buffer.from('text'), privateKeyOf('rsa-2048-pkcs8.pem')).toString('base64');
const signed = { data: { signature: `vault:v3:${signature}` } };

let clock: ManualClock;
/** Environment, result and seconds of each signature. */
let reports: unknown[];
/** Vault's response to the next signature. */
let response: () => Promise<object>;
let signer: SignRemotely;
/** Of the last request. */
let ended: AbortSignal | undefined;

beforeEach(() => {
  [clock, reports] = [new ManualClock(), []];
  response = () => Promise.resolve(signed);
  const respond: AuthenticatedClient['read'] = async (_path, shape) => shape.parse(await response());
  const write: AuthenticatedClient['write'] = (path, _data, shape) => respond(path, shape);
  const post: AuthenticatedClient['post'] = (path, _data, shape, signal) => {
    ended = signal;
    return respond(path, shape);
  };
  const client = { read: respond, readIfPermitted: respond, list: respond, write, post };
  signer = createTransitSigner(new TransitEngine(client, {}), {
    monotonic: clock.now,
    setTimer: clock.setTimer,
    events: { transitSigned: (...values) => void reports.push(values.slice(0, 3)) },
  });
});

const signText = () => signer(acme, key, 'text');

function fail(kind: VaultErrorKind): void {
  response = () => Promise.reject(new VaultError(kind));
}

/** A signature for which Vault takes so many milliseconds. */
async function signIn(milliseconds: number): Promise<string> {
  const responding = Promise.withResolvers<object>();
  response = () => responding.promise;
  const signing = signText().catch((error: Error) => error.message);
  await nextTurn();
  clock.advance(milliseconds);
  await nextTurn();
  responding.resolve(signed);
  return signing;
}

describe('a signature in Vault', () => {
  it('is reported with its duration in seconds', async () => {
    expect(await signIn(1_500)).toBe(signature);
    expect(reports).toEqual([['sandbox', 'ok', 1.5]]);
  });

  it.each([
    ['timeout', 'unavailable', 'signing-unavailable'],
    ['too-large', 'unavailable', 'signing-unavailable'],
    ['denied', 'denied', 'signing-unavailable'],
    ['no-route', 'denied', 'signing-unavailable'],
    ['rejected', 'rejected', 'key-unusable'],
    ['not-found', 'rejected', 'key-unusable'],
    ['wrong-signature', 'invalid', 'key-unusable'],
  ] as const)('that fails with %s is %s, and %s for the client', async (kind, result, reason) => {
    fail(kind);
    await expect(signText()).rejects.toMatchObject({ reason });
    expect(reports).toEqual([['sandbox', result, 0]]);
  });

  it('names the key that Vault does not sign with', async () => {
    fail('rejected');
    await expect(signText()).rejects.toThrow(/with the Transit key acme-key, version 3, for login "acme"/);
  });

  it('is waited for a second only while Vault is away, and as long as it takes again once it is back', async () => {
    fail('sealed');
    await signText().catch(() => {});
    expect(await signIn(1_000)).toContain('did not sign');
    expect(reports.at(-1)).toEqual(['sandbox', 'unavailable', 1]);
    // The slot of the signature is free, so Vault must have no request for it.
    expect(ended?.aborted).toBe(true);
    expect(await signIn(999)).toBe(signature);
    expect(await signIn(5_000)).toBe(signature);
  });

  it('is waited for as long as it takes after Vault denied another one', async () => {
    fail('denied');
    await signText().catch(() => {});
    expect(await signIn(5_000)).toBe(signature);
  });
});

it('a Transit key has a name of letters, digits and "_", with "." and "-" inside, of at most 255 characters', () => {
  expect(['a', '_', '_a.b-c_', 'a'.repeat(255)].filter(isTransitName)).toHaveLength(4);
  expect(['', '.a', 'a-', 'a/b', 'ä', 'a'.repeat(256)].filter(isTransitName)).toEqual([]);
});
