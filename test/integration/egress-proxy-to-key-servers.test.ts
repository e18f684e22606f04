import { beforeEach, expect, it } from '@jest/globals';
import { loadKeys } from '../../src/auth/jwt/key-set.ts';
import { jwtIssuer } from '../../src/config/schema/caller.ts';
import { startEgressProxy, type TestEgressProxy } from '../support/egress-proxy.ts';
import type { Folder } from '../support/folder.ts';
import { harness } from '../support/harness.ts';
import { issuerKey, startOidcServer } from '../support/oidc-server.ts';
import { describeWith } from '../support/requires.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { vaultKeys } from '../support/stub-vault/harness.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { until } from '../support/until.ts';

const starts = harness();

describeWith('openssl')('through an egress proxy with TLS (needs the program openssl)', () => {
  let folder: Folder;
  let ca: Ca;
  let egress: TestEgressProxy;

  beforeEach(async () => {
    folder = starts.folder();
    ca = new Ca(folder.path, 'ca');
    egress = starts.closing(await startEgressProxy(ca.issue('egress-proxy')));
  });

  /** A Countersign whose Vault is behind the egress proxy. */
  async function start() {
    const vault = starts.closing(new StubVault({ tls: ca.issue('vault') }));
    const address = await vault.listen();
    vault.put('gateway/sandbox/acme', { control_key: 'first' });
    const egressProxy = { url: egress.url, caFile: ca.file };
    const keys = vaultKeys(address, { caFile: ca.file, egressProxy, timeout: '1s' });
    return { address, proxy: await starts.proxy({ certificateCheckInterval: 86_400_000, config: { keys } }) };
  }

  const failures = [
    [{ responds: 'HTTP/1.1 407 x\r\n\r\n' }, 'egress proxy did not accept the credentials: status 407'],
    ['silent', 'egress proxy: timeout: ETIMEDOUT'],
  ] as const;

  it.each(failures)(
    'keys are read from Vault; a failure of the proxy is named: %j',
    async (behavior, text) => {
      const { address, proxy } = await start();
      await until(async () => (await proxy.metric('key_source_up')) === 1);
      expect(egress.heads[0]).toContain(`CONNECT 127.0.0.1:${new URL(address).port} HTTP/1.1`);
      expect(egress.tunneled().toString('latin1')).not.toContain('X-Vault-Token');
      egress.drop();
      egress.behavior = behavior;
      expect((await proxy.balance()).status).toBe(503);
      const { keySource } = await proxy.instanceStatus();
      expect(keySource.problem).toBe(`Vault cannot be reached (${text})`);
    },
  );

  it('keys of a JWT issuer are fetched, and a failure of the proxy is named', async () => {
    const issuer = starts.closing(
      await startOidcServer({ keys: [issuerKey('ec')], tls: ca.issue('issuer') }),
    );
    const settings = jwtIssuer.parse({
      issuer: issuer.url,
      audience: 'a',
      caFile: ca.file,
      egressProxy: { url: egress.url, caFile: ca.file },
    });
    expect((await loadKeys(settings)).map(({ kid }) => kid)).toEqual(['ec']);
    // Discovery and the key set.
    expect(egress.heads).toHaveLength(2);
    const [[behavior, text]] = failures;
    egress.behavior = behavior;
    await expect(loadKeys(settings)).rejects.toThrow(
      `${issuer.url}/.well-known/openid-configuration: ${text}`,
    );
  });
});
