import { expect, it } from '@jest/globals';
import type { AuthenticatedClient } from '../../../../src/keys/vault/client.ts';
import { VaultError } from '../../../../src/keys/vault/errors.ts';
import { KvStore } from '../../../../src/keys/vault/kv2.ts';
import { kvPaths } from '../../../../src/keys/vault/paths.ts';

const acme = { environment: 'sandbox', login: 'acme' };
const created_time = '2026-01-15T12:00:00.123456789Z';

/** A store whose Vault responds with this version to every request; with an error if it is deleted. */
function storeAbout(version: number, deleted = false): KvStore {
  const metadata = { version, created_time };
  const body = { data: { data: { control_key: 'k' }, metadata, version } };
  return storeOf(deleted ? new VaultError('deleted', { metadata }) : body);
}

/** A store whose Vault responds with this, or fails with it, at every request. @param info to that about the mount */
function storeOf(body: object, info = body, mount = 'secret'): KvStore {
  const responding =
    (response: object): AuthenticatedClient['read'] =>
    async (_path, shape) => {
      if (response instanceof VaultError) throw response;
      return shape.parse(response);
    };
  const respond = responding(body);
  const write: AuthenticatedClient['write'] = (path, _data, shape) => respond(path, shape);
  const client = { read: respond, readIfPermitted: responding(info), list: respond, write, post: write };
  return new KvStore(client, kvPaths({ mount, path: 'gateway/{environment}/{login}' }));
}

it('a Vault response about another version than the one that was read or written is an error', async () => {
  const crossed = {
    kind: 'invalid-response',
    message: expect.stringContaining('expected version 2, got version 3'),
  };
  for (const isDeleted of [false, true]) {
    await expect(storeAbout(3, isDeleted).read(acme, 2)).rejects.toMatchObject(crossed);
    expect(await storeAbout(2, isDeleted).read(acme, 2)).toMatchObject({ version: 2 });
  }
  await expect(storeAbout(3).write(acme, {}, 1)).rejects.toMatchObject(crossed);
  expect(await storeAbout(2).write(acme, {}, 1)).toBe(2);
  expect(await storeAbout(3).read(acme)).toMatchObject({ version: 3 });
});

it('a deleted version without its number or time is no version', async () => {
  for (const metadata of [undefined, { version: 2 }, { created_time }]) {
    const unexpected = { kind: 'unexpected-content', message: expect.stringContaining('lacks metadata') };
    await expect(storeOf(new VaultError('deleted', { metadata })).read(acme)).rejects.toMatchObject(
      unexpected,
    );
  }
});

it('only a secret that does not exist has no version, nor a history, and its login is not listed', async () => {
  const all = (store: KvStore) => [store.read(acme), store.history(acme), store.logins('sandbox')];
  expect(await Promise.all(all(storeOf(new VaultError('not-found'))))).toEqual([undefined, undefined, []]);
  for (const kind of ['timeout', 'denied'] as const)
    for (const failing of all(storeOf(new VaultError(kind))))
      await expect(failing).rejects.toMatchObject({ kind });
  // While the version of the mount is not known, no secret is missing.
  const store = storeOf(new VaultError('not-found'), new VaultError('sealed'));
  for (const failing of [store.read(acme), store.history(acme)])
    await expect(failing).rejects.toMatchObject({ kind: 'sealed' });
});

it.each([
  [{ type: 'kv', options: null }, 'kv-version-1'],
  [{ type: 'kv' }, 'kv-version-1'],
  [{ type: 'kv', options: { version: '2' } }, 'not found'],
  [{ type: 'cubbyhole', options: null }, 'not found'],
])('a secret that does not exist in a mount with %j: %s', async (data, expected) => {
  const store = storeOf(new VaultError('not-found'), { data });
  const found = store.read(acme).then((version) => version ?? 'not found');
  const kind = await found.catch((error: unknown) => error instanceof VaultError && error.kind);
  expect(kind).toBe(expected);
});

it.each([
  ['secret/data', 'not-found', 'secret/'],
  ['secret/data', 'denied', 'secret/'],
  ['team/kv/data', 'not-found', 'team/kv/'],
  ['secret/data/apps', 'denied', 'secret/'],
] as const)(
  'a mount given as %s, whose paths are %s, is named as Vault names it',
  async (mount, kind, path) => {
    const info = { data: { type: 'kv', path, options: { version: '2' } } };
    const store = storeOf(new VaultError(kind), info, mount);
    const expected = {
      kind: 'not-a-mount',
      message: expect.stringContaining(`(it is "${mount}", and Vault's mount is "${path.slice(0, -1)}")`),
    };
    await expect(store.read(acme)).rejects.toMatchObject(expected);
    await expect(store.history(acme)).rejects.toMatchObject(expected);
  },
);
