import { describe, expect, it } from '@jest/globals';
import type { VaultClient } from '../../../src/keys/vault/client.ts';
import { KvStore } from '../../../src/keys/vault/kv.ts';
import { kvPaths } from '../../../src/keys/vault/paths.ts';
import { VaultError } from '../../../src/keys/vault/problem.ts';
import { Secret } from '../../../src/secret.ts';

const acme = { environment: 'sandbox', login: 'acme' };
const token = new Secret('t');
const created_time = '2026-01-15T12:00:00.123456789Z';

/** A store of which every response is about this version; deleted ones say so with an error. */
function storeAbout(version: number, deleted = false): KvStore {
  const metadata = { version, created_time };
  const respond: VaultClient['read'] = async (_path, shape) => {
    if (deleted) throw new VaultError('deleted', { metadata });
    return shape.parse({ data: { data: { control_key: 'k' }, metadata, version } });
  };
  const write: VaultClient['write'] = (path, _data, shape) => respond(path, shape, token);
  const client = { read: respond, list: respond, write, close: () => {}, useTls: () => {} };
  return new KvStore(client, kvPaths({ mount: 'secret', path: 'gateway/{environment}/{login}' }));
}

describe('a response of Vault about another version', () => {
  const crossed = {
    kind: 'invalid-reply',
    message: expect.stringContaining('version 3 in response to version 2'),
  };

  it('than the one that was read is an error', async () => {
    await expect(storeAbout(3).read(token, acme, 2)).rejects.toMatchObject(crossed);
    expect(await storeAbout(2).read(token, acme, 2)).toMatchObject({ version: 2 });
  });

  it('is an error also where that version is deleted', async () => {
    await expect(storeAbout(3, true).read(token, acme, 2)).rejects.toMatchObject(crossed);
    expect(await storeAbout(2, true).read(token, acme, 2)).toMatchObject({ version: 2 });
  });

  it('than the one that was written is an error', async () => {
    await expect(storeAbout(3).write(token, acme, {}, 1)).rejects.toMatchObject(crossed);
    expect(await storeAbout(2).write(token, acme, {}, 1)).toBe(2);
  });

  it('is not looked for where the current version was asked for', async () => {
    expect(await storeAbout(3).read(token, acme)).toMatchObject({ version: 3 });
  });
});
