import { chmod, mkdir, mkdtemp, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { createDirectorySource } from '../../../../src/keys/directory/source.ts';
import { type KeySource, ringIn } from '../../../../src/keys/key-source.ts';
import { type KeyRing, usableIn } from '../../../../src/keys/ring.ts';
import { reveal } from '../../../../src/secret.ts';
import { itWhere } from '../../../support/requires.ts';
import { ManualClock } from '../../../support/stub-vault/clock.ts';
import { vectorText } from '../../../support/vectors.ts';

const acme = { environment: 'sandbox', login: 'acme' };
const hour = 3_600_000;
const pkcs8 = vectorText('keys/rsa-2048-pkcs8.pem');
const otherPem = vectorText('keys/rsa-4096-pkcs8.pem');
/** openssl pkey -in FILE -pubout -outform DER | sha256sum */
const fingerprint = '4d171a1336111d276a2f675497a130a261c9d55e45c07775bd71aa601e6231c8';
const otherFingerprint = '06e3adeb32229c2b59c5a0025519a6846511cfecb7d0e381602bf0f7245328dc';

let directory = '';
let now = 0;
let source: KeySource;
let known: KeyRing;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'countersign-keys-'));
  now = 1_800_000_000_000;
  source = newSource();
  known = [];
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const newSource = (rotationGracePeriod = 24 * hour) =>
  createDirectorySource({ directory, rotationGracePeriod, now: () => now });

/** Writes a file of acme, last changed at `seconds` since 1970. */
async function put(file: string, content: string | Buffer, seconds = 1_700_000_000): Promise<void> {
  const path = join(directory, 'sandbox', 'acme', file);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, content);
  await utimes(path, seconds, seconds);
}

/** Writes these control keys one after the other, and reads each. */
async function rotate(...keys: readonly string[]): Promise<KeyRing | undefined> {
  let ring: KeyRing | undefined;
  for (const key of keys) {
    await put('control_key', key);
    ring = await read();
  }
  return ring;
}

/** As a cache reads: with the ring of the read before. */
async function read(from: KeySource = source): Promise<KeyRing | undefined> {
  const reading = await from.read(acme, known);
  known = ringIn(reading) ?? [];
  return ringIn(reading);
}

/** Each entry's key or problem, newest first, and whether it was superseded. */
function shown(ring: KeyRing | undefined): string[] {
  return (ring ?? []).map((entry) => {
    const mark = entry.supersededAt === undefined ? '' : ' (superseded)';
    if ('problem' in entry) return `${entry.problem}${mark}`;
    const { key } = entry;
    return `${key.kind === 'control_key' ? reveal(key.secret) : entry.fingerprint}${mark}`;
  });
}

describe('a directory with keys', () => {
  it('has control key and private key, with the time of the newest change as version', async () => {
    await put('control_key', 'abc\n', 1_700_000_000);
    await put('private_key.pem', pkcs8, 1_700_000_500.75);
    const ring = await read();
    expect(shown(ring)).toEqual(['abc', fingerprint]);
    const about = { version: 1_700_000_500, createdAt: new Date(1_700_000_500_750) };
    expect(ring).toEqual([expect.objectContaining(about), expect.objectContaining(about)]);
  });

  it('can contain the passphrase of an encrypted private key', async () => {
    await put('private_key.pem', vectorText('keys/rsa-2048-encrypted.pem'));
    await put('passphrase', 'test passphrase\n');
    expect(shown(await read())).toEqual([fingerprint]);
  });

  it('reports why a key in it cannot be used', async () => {
    await put('control_key', '\n');
    await put('private_key.pem', 'junk');
    const problem = expect.stringMatching(
      /^the private key \(file private_key.pem\) is not a PEM private key/,
    );
    expect(shown(await read())).toEqual(['the control key (file control_key) is empty', problem]);
    await put('control_key', Buffer.from([0x61, 0xff]));
    expect(shown(await read())[0]).toMatch(/^the control key \(file control_key\) is not text in UTF-8/);
  });

  it('can be a Kubernetes mount, whose files are links', async () => {
    const folder = join(directory, 'sandbox', 'acme');
    await put('..2026_1/control_key', 'abc');
    await symlink('..2026_1', join(folder, '..data'));
    await symlink('..data/control_key', join(folder, 'control_key'));
    expect(shown(await read())).toEqual(['abc']);
    await put('..2026_2/control_key', 'xyz');
    await symlink('..2026_2', join(folder, '..data_tmp'));
    await rename(join(folder, '..data_tmp'), join(folder, '..data'));
    expect(shown(await read())).toEqual(['xyz', 'abc (superseded)']);
  });
});

it('a login without a directory, or with an empty one, is missing; not while the whole directory is', async () => {
  expect(await read()).toBeUndefined();
  await mkdir(join(directory, 'sandbox', 'acme'), { recursive: true });
  expect(await read()).toBeUndefined();
  expect(await source.read({ environment: 'production', login: 'acme' })).toBe('not-found');
  await rm(directory, { recursive: true });
  await expect(read()).rejects.toMatchObject({ reason: 'key-source-unavailable' });
});

describe('a directory that cannot be read', () => {
  const unavailable = { reason: 'key-source-unavailable', status: 503, headers: { 'Retry-After': '5' } };

  it('is unavailable if it is not one, or if a file in it is too large for a key', async () => {
    await mkdir(join(directory, 'sandbox'));
    await writeFile(join(directory, 'sandbox', 'acme'), 'abc');
    await expect(read()).rejects.toMatchObject(unavailable);
    await rm(join(directory, 'sandbox', 'acme'));
    await put('control_key', 'MARK'.repeat(20_000));
    const error: unknown = await read().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject(unavailable);
    expect(inspect(error, { depth: 9 })).not.toContain('MARK');
  });

  const itUnlessRoot = itWhere(process.getuid?.() !== 0, 'files that may not be read (root may read all)');
  itUnlessRoot('is unavailable when permission is denied', async () => {
    await put('control_key', 'abc');
    await chmod(join(directory, 'sandbox', 'acme', 'control_key'), 0);
    await expect(read()).rejects.toMatchObject(unavailable);
  });

  it('keeps its superseded keys', async () => {
    await put('control_key', 'abc');
    await read();
    await rename(directory, `${directory}-away`);
    await expect(read()).rejects.toMatchObject(unavailable);
    await rename(`${directory}-away`, directory);
    await put('control_key', 'xyz');
    expect(shown(await read())).toEqual(['xyz', 'abc (superseded)']);
  });
});

it('a directory that hangs is unavailable after 5 s, for all logins, and can be read as soon as it responds', async () => {
  await put('control_key', 'abc');
  const time = new ManualClock();
  source = createDirectorySource({
    directory,
    rotationGracePeriod: hour,
    now: () => now,
    setTimer: time.setTimer,
  });
  const reads = [acme, { ...acme, login: 'beta' }].map((login) =>
    source.read(login).catch((error: unknown) => error),
  );
  // At once: no file has been read yet.
  time.advance(4_999);
  expect(time.nextTimer).toBe(1);
  time.advance(1);
  const failure = { source: 'down', problem: `the directory ${directory} did not respond within 5 s` };
  expect(await Promise.all(reads)).toMatchObject([failure, failure]);
  expect(shown(ringIn(await source.read(acme)))).toEqual(['abc']);
});

describe('a rotation with files', () => {
  it('has a previous key, superseded when the new one was read', async () => {
    await put('control_key', 'abc');
    await read();
    await put('control_key', 'xyz', 1_700_000_900);
    const ring = await read();
    expect(shown(ring)).toEqual(['xyz', 'abc (superseded)']);
    expect(ring?.[0]).toMatchObject({ version: 1_700_000_900 });
    expect(ring?.[1]).toMatchObject({ version: 1_700_000_000, supersededAt: new Date(now) });
    now += hour;
    expect((await read())?.[1]).toMatchObject({ supersededAt: new Date(now - hour) });
  });

  it('drops the previous key after the grace period', async () => {
    await rotate('abc', 'xyz');
    now += 24 * hour - 1;
    expect(shown(await read())).toEqual(['xyz', 'abc (superseded)']);
    now += 1;
    expect(shown(await read())).toEqual(['xyz']);
  });

  it('keeps no previous key with a grace period of 0', async () => {
    source = newSource(0);
    expect(shown(await rotate('abc', 'xyz'))).toEqual(['xyz']);
  });

  it('does not happen if a file was only touched, or encoded in another way', async () => {
    await put('control_key', 'abc');
    await put('private_key.pem', pkcs8);
    const ring = await read();
    await put('control_key', 'abc\n', 1_700_000_900);
    await put('private_key.pem', vectorText('keys/rsa-2048-pkcs1.pem'), 1_700_000_900);
    expect(await read()).toEqual(ring);
  });

  it('happens even if the new file has the same time, or an older one', async () => {
    const ring = await rotate('abc', 'xyz');
    expect(ring?.map((entry) => entry.version)).toEqual([1_700_000_001, 1_700_000_000]);
    await put('control_key', 'old', 1_600_000_000);
    const versions = (await read())?.map((entry) => entry.version);
    expect(versions).toEqual([1_700_000_002, 1_700_000_001, 1_700_000_000]);
  });

  it('supersedes only the kind of key that changed', async () => {
    await put('private_key.pem', pkcs8);
    await rotate('abc');
    await put('private_key.pem', otherPem);
    const expected = ['abc', otherFingerprint, `${fingerprint} (superseded)`];
    expect(shown(await read())).toEqual(expected);
  });

  it('keeps the usable key behind a new one that cannot be used', async () => {
    const empty = ['the control key (file control_key) is empty', 'abc'];
    expect(shown(await rotate('abc', ''))).toEqual(empty);
    now += 48 * hour;
    expect(shown(await read())).toEqual(empty);
    expect(shown(await rotate('xyz'))).toEqual(['xyz', 'abc (superseded)']);
  });

  it('keeps two previous keys at most, and can be undone', async () => {
    expect(shown(await rotate('1', '2', '3', '4'))).toEqual(['4', '3 (superseded)', '2 (superseded)']);
    expect(shown(await rotate('3'))).toEqual(['3', '4 (superseded)', '2 (superseded)']);
  });

  it('does not restore a kind of key that was removed, nor the keys of a login that was deleted', async () => {
    await put('private_key.pem', pkcs8);
    await rotate('abc');
    await rm(join(directory, 'sandbox', 'acme', 'control_key'));
    expect(shown(await read())).toEqual([fingerprint]);
    await rm(join(directory, 'sandbox', 'acme'), { recursive: true });
    expect(await read()).toBeUndefined();
    expect(shown(await rotate('xyz'))).toEqual(['xyz']);
  });
});

it.each([
  ['sandbox', '..'],
  ['sandbox', 'a\\b'],
  ['..', 'acme'],
  ['sandbox/acme', 'acme'],
])('the environment %j with the login %j reaches no path', async (environment, login) => {
  await expect(source.read({ environment, login })).rejects.toThrow(TypeError);
});

describe('readiness', () => {
  it('comes as soon as the directory is readable, without a read, and stays', async () => {
    await rename(directory, `${directory}-away`);
    source.start();
    expect(source.ready()).toBe(false);
    await rename(`${directory}-away`, directory);
    expect(source.ready()).toBe(true);
    await rm(directory, { recursive: true });
    expect(source.ready()).toBe(true);
  });
});

describe('the key that the gateway accepted last', () => {
  beforeEach(() => rotate('abc', 'xyz'));

  it('is gone, not deleted, once the grace period of the file before it is over', async () => {
    const accepted = usableIn(known).slice(1);
    expect(await source.read(acme, known, accepted)).toMatchObject({ ring: known, gone: [] });
    now += 48 * hour;
    const reading = await source.read(acme, known, accepted);
    expect(reading).toMatchObject({ gone: accepted });
    expect(shown(ringIn(reading))).toEqual(['xyz']);
  });

  it('is deleted with the file', async () => {
    await put('private_key.pem', pkcs8);
    await rm(join(directory, 'sandbox', 'acme', 'control_key'));
    expect(await source.read(acme, known)).toMatchObject({ gone: [] });
  });

  it('is not deleted with the folder of the environment', async () => {
    await rm(join(directory, 'sandbox'), { recursive: true });
    expect(await source.read(acme, known)).toBe('not-found');
    await mkdir(join(directory, 'sandbox'));
    expect(await source.read(acme, known)).toBe('deleted');
  });
});
