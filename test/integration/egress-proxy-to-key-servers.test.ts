import { writeFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { loadKeys } from '../../src/auth/jwt/key-set.ts';
import { jwtIssuer } from '../../src/config/schema/caller.ts';
import type { ConfigInput } from '../support/config.ts';
import { startEgressProxy, type TestEgressProxy } from '../support/egress-proxy.ts';
import { Folder } from '../support/folder.ts';
import { issuerKey, type OidcServer, startOidcServer } from '../support/oidc-server.ts';
import { describeWith } from '../support/requires.ts';
import { startProxy } from '../support/service.ts';
import { VaultAdmin } from '../support/stub-vault/admin.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { acme, controlKeys, rootAuth, VaultTestEnvironment } from '../support/stub-vault/harness.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { rootToken } from '../support/stub-vault/state.ts';
import { until } from '../support/until.ts';

describeWith('openssl')('through an egress proxy with TLS (needs the program openssl)', () => {
  let folder: Folder;
  let ca: Ca;
  let egress: TestEgressProxy;

  beforeEach(async () => {
    folder = new Folder();
    ca = new Ca(folder.path, 'ca');
    egress = await startEgressProxy(ca.issue('egress-proxy'));
  });
  afterEach(async () => {
    await egress.close();
    folder.remove();
  });

  const failures = [
    [
      '407',
      { responds: 'HTTP/1.1 407 x\r\n\r\n' },
      'egress proxy did not accept the credentials: status 407',
    ],
    ['403', { responds: 'HTTP/1.1 403 x\r\n\r\n' }, 'egress proxy denied the tunnel: status 403'],
    ['502', { responds: 'HTTP/1.1 502 x\r\n\r\n' }, 'egress proxy could not reach the server: status 502'],
    ['garbage', { responds: 'x\r\n\r\n' }, 'egress proxy sent an invalid response: no HTTP response'],
    ['nothing', 'silent', 'egress proxy: timeout: ETIMEDOUT'],
    ['the end', 'end', 'egress proxy unreachable: ECONNRESET'],
  ] as const;

  it('keys are read from Vault, and a failure of the proxy is named', async () => {
    const setup = await new VaultTestEnvironment().open();
    try {
      const vault = setup.closeAtEnd(new StubVault({ tls: ca.issue('vault') }));
      const address = await vault.listen();
      const admin = new VaultAdmin(address, rootToken, () => ca.cert);
      await admin.put('gateway/sandbox/acme', { control_key: 'first' });
      const egressProxy = { url: egress.url, caFile: ca.file };
      const read = () =>
        setup.source({ address, caFile: ca.file, egressProxy, timeout: 1000, auth: rootAuth }).read(acme);
      expect(controlKeys(await read())).toEqual(['1:first']);
      expect(egress.heads[0]).toContain(`CONNECT 127.0.0.1:${new URL(address).port} HTTP/1.1`);
      expect(egress.tunneled().toString('latin1')).not.toContain('X-Vault-Token');
      for (const [, behavior, text] of failures) {
        egress.behavior = behavior;
        await expect(read()).rejects.toMatchObject({
          cause: { message: `Vault cannot be reached (${text})` },
        });
      }
    } finally {
      await setup.close();
    }
  });

  it('keys of a JWT issuer are fetched, and a failure of the proxy is named', async () => {
    const issuer: OidcServer = await startOidcServer({ keys: [issuerKey('ec')], tls: ca.issue('issuer') });
    const settings = jwtIssuer.parse({
      issuer: issuer.url,
      audience: 'a',
      caFile: ca.file,
      egressProxy: { url: egress.url, caFile: ca.file },
    });
    const load = () =>
      loadKeys(settings).then(
        (keys) => keys.map(({ kid }) => kid),
        (error: Error) => error.message,
      );
    try {
      expect(await load()).toEqual(['ec']);
      // Discovery and the key set.
      expect(egress.heads).toHaveLength(2);
      for (const [, behavior, text] of failures) {
        egress.behavior = behavior;
        expect(await load()).toBe(`${issuer.url}/.well-known/openid-configuration: ${text}`);
      }
    } finally {
      await issuer.close();
    }
  });

  it('another password of the egress proxy is used after a reload', async () => {
    const vault = new StubVault({ tls: ca.issue('vault') });
    const address = await vault.listen();
    const admin = new VaultAdmin(address, rootToken, () => ca.cert);
    await admin.put('gateway/sandbox/acme', { control_key: 'first' });
    const keysWith = (password: string): Partial<ConfigInput> => ({
      keys: {
        source: 'vault',
        vault: {
          address,
          caFile: ca.file,
          auth: { method: 'token', token: rootToken },
          egressProxy: { url: egress.url, caFile: ca.file, username: 'pay', password },
        },
      },
    });
    const proxy = await startProxy({ config: keysWith('first') });
    const passwords = (): string[] =>
      egress.heads.map((head) =>
        Buffer.from(/Basic (\S+)/.exec(head)?.[1] ?? '', 'base64')
          .toString()
          .replace('pay:', ''),
      );
    try {
      await proxy.balance();
      expect(new Set(passwords())).toEqual(new Set(['first']));
      await proxy.reload(keysWith('second'));
      await until(() => passwords().includes('second'));
    } finally {
      await proxy.stop();
      await vault.close();
    }
  });

  it('a new CA of the egress proxy is looked for as soon as TLS with it fails', async () => {
    const vault = new StubVault({ tls: ca.issue('vault') });
    const address = await vault.listen();
    const caFile = folder.file('egress-ca.crt', new Ca(folder.path, 'other-ca').cert.toString());
    const proxy = await startProxy({
      certificateCheckInterval: 86_400_000,
      config: {
        keys: {
          source: 'vault',
          vault: {
            address,
            caFile: ca.file,
            auth: { method: 'token', token: rootToken },
            egressProxy: { url: egress.url, caFile },
          },
        },
      },
    });
    try {
      await until(async () => (await proxy.metric('key_source_up')) === 0);
      expect(egress.heads).toEqual([]);
      writeFileSync(caFile, ca.cert);
      await until(async () => (await proxy.metric('key_source_up')) === 1);
    } finally {
      await proxy.stop();
      await vault.close();
    }
  });
});
