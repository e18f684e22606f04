import { createServer } from 'node:http';
import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import type { VaultConfig } from '../../src/config/schema.ts';
import { vaultClient } from '../../src/keys/vault/client.ts';
import { Secret } from '../../src/secret.ts';
import { listen } from '../support/listening.ts';
import { itWith } from '../support/requires.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { acme, controlKeys, problemOf, VaultTestEnvironment } from '../support/stub-vault/harness.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { rootToken } from '../support/stub-vault/state.ts';
import { until } from '../support/until.ts';

describe('requests to Vault', () => {
  let setup: VaultTestEnvironment;
  let other: StubVault;
  const environment = { ...process.env };

  beforeEach(async () => {
    setup = await new VaultTestEnvironment().open();
    await setup.admin.put('gateway/sandbox/acme', { control_key: 'first' });
    other = new StubVault();
    await other.listen();
    setup.vault.seen.length = 0;
  });
  afterEach(async () => {
    process.env = { ...environment };
    await other.close();
    await setup.close();
  });

  const open = (more: Partial<VaultConfig> = {}) => setup.source(more);

  it("ignore VAULT_ variables and the environment's proxy settings", async () => {
    for (const name of ['VAULT_ADDR', 'http_proxy', 'HTTP_PROXY', 'https_proxy', 'HTTPS_PROXY', 'ALL_PROXY'])
      process.env[name] = other.address;
    for (const name of ['VAULT_TOKEN', 'VAULT_NAMESPACE', 'VAULT_PREFIX', 'VAULT_SKIP_VERIFY'])
      process.env[name] = 'of-the-environment';
    expect(controlKeys(await open({ auth: await setup.appRole() }).read(acme))).toEqual(['1:first']);
    expect(other.seen).toEqual([]);
    const seen = setup.vault.seen.filter(({ headers }) => headers['x-vault-request'] === 'true');
    expect(seen.map(({ target, headers }) => [target, headers['x-vault-token'] !== undefined])).toEqual([
      ['auth/approle/login', false],
      ['auth/token/lookup-self', true],
      ['secret/data/gateway/sandbox/acme', true],
    ]);
    expect(JSON.stringify(seen)).not.toContain('of-the-environment');
  });

  it('that hang are given up once another copy of them has a response', async () => {
    const source = open({ timeout: 60_000 });
    await source.read(acme);
    setup.vault.fail({ kind: 'black-hole' }, /acme/);
    setup.vault.seen.length = 0;
    const reading = source.read(acme);
    await until(() => setup.vault.seen.length === 1, 'the first copy is sent');
    const opened = setup.vault.openConnections;
    setup.vault.heal();
    expect(controlKeys(await reading)).toEqual(['1:first']);
    expect(setup.vault.seen.length).toBeGreaterThan(1);
    await until(() => setup.vault.openConnections < opened, 'the connection of the first copy is closed');
  });

  it('carry the configured namespace', async () => {
    await open({ namespace: 'team-a' }).read(acme);
    const namespaces = setup.vault.seen.map(({ headers }) => headers['x-vault-namespace']);
    expect(namespaces).toEqual(['team-a', 'team-a']);
  });

  itWith('openssl')(
    'trust the configured CA and no other server, whatever the environment variables are',
    async () => {
      const ca = new Ca(setup.folder.path, 'ca');
      const vault = setup.closeAtEnd(new StubVault({ tls: ca.issue('server') }));
      const address = await vault.listen();
      const read = (more: Partial<VaultConfig>) => problemOf(open({ address, ...more }).read(acme));
      process.env['VAULT_SKIP_VERIFY'] = '1';
      expect(await read({})).toBe('unreachable');
      expect(await read({ caFile: new Ca(setup.folder.path, 'stranger').file })).toBe('unreachable');
      expect(vault.seen).toEqual([]);
      expect(await read({ caFile: ca.file })).toBe('none');
    },
  );

  describe('on a kept-alive socket that the server has closed', () => {
    /** A client of a server that resets a connection with its second request, and the methods of all requests. */
    async function connect() {
      const methods: string[] = [];
      const used = new WeakSet<Socket>();
      const server = createServer((request, response) => {
        methods.push(request.method ?? '');
        if (used.has(request.socket)) request.socket.resetAndDestroy();
        used.add(request.socket);
        response.end('{}');
      });
      const { port } = setup.closeAtEnd(await listen(server));
      const client = setup.closeAtEnd(vaultClient({ address: `http://127.0.0.1:${port}`, timeout: 2000 }));
      return { methods, client };
    }

    it('reads are retried once', async () => {
      const { methods, client } = await connect();
      for (let times = 0; times < 3; times += 1)
        expect(await client.read('secret/data/a', z.object({}), new Secret('t'))).toEqual({});
      expect(methods.length).toBeGreaterThan(3);
    });

    it('logins are not retried, since each has a dedicated socket', async () => {
      const { methods, client } = await connect();
      await client.read('secret/data/a', z.object({}), new Secret('t'));
      for (let times = 0; times < 3; times += 1) await client.write('auth/approle/login', {}, z.object({}));
      expect(methods).toEqual(['GET', 'POST', 'POST', 'POST']);
    });
  });

  it('time out, however many there are', async () => {
    setup.vault.fail({ kind: 'black-hole' }, /data/);
    const client = setup.closeAtEnd(vaultClient({ address: setup.vault.address, timeout: 200 }));
    const begun = performance.now();
    const requests = Array.from({ length: 40 }, (_, index) =>
      problemOf(client.read(`secret/data/${index}`, z.object({}), new Secret(rootToken))),
    );
    expect(new Set(await Promise.all(requests))).toEqual(new Set(['timeout']));
    expect(performance.now() - begun).toBeLessThan(2000);
  });

  it('are not sent before they are needed', async () => {
    open();
    expect(setup.vault.seen).toEqual([]);
  });
});
