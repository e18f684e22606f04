import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import type { VaultConfig } from '../../src/config/schema.ts';
import { vaultClient } from '../../src/keys/vault/client.ts';
import { Secret } from '../../src/secret.ts';
import { describeWith } from '../support/requires.ts';
import { VaultAdmin } from '../support/stub-vault/admin.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import {
  acme,
  controlKeys,
  problemOf,
  rootAuth,
  VaultTestEnvironment,
} from '../support/stub-vault/harness.ts';
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
    const proxy = other.address;
    Object.assign(process.env, {
      VAULT_ADDR: other.address,
      VAULT_TOKEN: 'token-of-the-environment',
      VAULT_NAMESPACE: 'namespace-of-the-environment',
      VAULT_PREFIX: '/prefix-of-the-environment',
      VAULT_SKIP_VERIFY: 'true',
      http_proxy: proxy,
      HTTP_PROXY: proxy,
      https_proxy: proxy,
      HTTPS_PROXY: proxy,
      ALL_PROXY: proxy,
    });
    expect(controlKeys(await open({ auth: await setup.appRole() }).read(acme))).toEqual(['1:first']);
    expect(other.seen).toEqual([]);
    const seen = setup.vault.seen.filter(({ headers }) => headers['x-vault-request'] === 'true');
    expect(seen.map(({ target }) => target)).toEqual([
      'auth/approle/login',
      'auth/token/lookup-self',
      'secret/data/gateway/sandbox/acme',
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

  it('carry no token when they log in, even if there is an older token', async () => {
    const source = open({ auth: await setup.appRole() });
    await source.read(acme);
    setup.clock.advance(2 * 3600_000);
    await source.read(acme);
    const logins = setup.vault.seen.filter(({ target }) => target.endsWith('/login'));
    expect(logins.map(({ headers }) => headers['x-vault-token'])).toEqual([undefined, undefined]);
  });

  it('carry the configured namespace', async () => {
    const vault = setup.closeAtEnd(new StubVault({ namespaces: ['team-a'] }));
    const admin = new VaultAdmin(await vault.listen(), rootToken);
    const inTeam = { 'X-Vault-Namespace': 'team-a' };
    await admin.request(
      'POST',
      'secret/data/gateway/sandbox/acme',
      { data: { control_key: 'of the team' } },
      inTeam,
    );
    const read = async (more: Partial<VaultConfig>) => {
      const source = setup.source({ address: vault.address, ...more });
      return controlKeys(await source.read(acme));
    };
    expect(await read({ namespace: 'team-a' })).toEqual(['1:of the team']);
    expect(await read({})).toBe('not-found');
    expect(await problemOf(read({ namespace: 'team-b' }))).toBe('no-route');
  });

  describeWith('openssl')('over TLS (needs the program openssl)', () => {
    let ca: Ca;
    let vault: StubVault;

    async function listen(clientCa?: Ca): Promise<void> {
      ca = new Ca(setup.folder.path, 'ca');
      const { cert, key } = ca.issue('server');
      vault = new StubVault({
        tls: { cert, key, ...(clientCa === undefined ? {} : { clientCa: clientCa.cert }) },
      });
      await vault.listen();
    }
    const read = (more: Partial<VaultConfig>) => setup.source({ address: vault.address, ...more }).read(acme);
    afterEach(() => vault.close());

    it('trust the configured CA', async () => {
      await listen();
      expect(await problemOf(read({ caFile: ca.file }))).toBe('none');
    });

    it('trust no other server, whatever the environment variables are', async () => {
      await listen();
      process.env['VAULT_SKIP_VERIFY'] = '1';
      expect(await problemOf(read({}))).toBe('unreachable');
      const stranger = new Ca(setup.folder.path, 'stranger');
      expect(await problemOf(read({ caFile: stranger.file }))).toBe('unreachable');
      expect(vault.seen).toEqual([]);
    });

    it('present the configured client certificate', async () => {
      const clients = new Ca(setup.folder.path, 'clients');
      await listen(clients);
      const { certFile, keyFile } = clients.issue('countersign');
      expect(await problemOf(read({ caFile: ca.file }))).toBe('unreachable');
      expect(await problemOf(read({ caFile: ca.file, certFile, keyFile }))).toBe('none');
    });
  });

  describe('on a kept-alive socket that the server has closed', () => {
    let server: Server;
    let methods: string[];

    beforeEach(async () => {
      methods = [];
      const used = new WeakSet<Socket>();
      server = createServer((request, response) => {
        methods.push(request.method ?? '');
        if (used.has(request.socket)) {
          request.socket.resetAndDestroy();
          return;
        }
        used.add(request.socket);
        response.end('{}');
      }).listen(0, '127.0.0.1');
      await once(server, 'listening');
    });
    afterEach(() => {
      server.closeAllConnections();
      server.close();
    });

    const client = () => {
      const { port } = z.object({ port: z.number() }).parse(server.address());
      return setup.closeAtEnd(vaultClient({ address: `http://127.0.0.1:${port}`, timeout: 2000 }));
    };

    it('reads are retried once', async () => {
      const vault = client();
      for (let times = 0; times < 3; times += 1) {
        expect(await vault.read('secret/data/a', z.object({}), new Secret('t'))).toEqual({});
      }
      expect(methods.length).toBeGreaterThan(3);
    });

    it('logins are not retried, since each has a dedicated socket', async () => {
      const vault = client();
      await vault.read('secret/data/a', z.object({}), new Secret('t'));
      for (let times = 0; times < 3; times += 1) await vault.write('auth/approle/login', {}, z.object({}));
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
    open({ auth: rootAuth });
    expect(setup.vault.seen).toEqual([]);
  });
});
