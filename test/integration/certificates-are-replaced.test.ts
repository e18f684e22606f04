import { copyFileSync } from 'node:fs';
import { connect } from 'node:tls';
import { beforeEach, expect, it } from '@jest/globals';
import { loadConfig } from '../../src/config/load.ts';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { always, httpResponse, type Script } from '../support/faulty-gateway.ts';
import { Folder } from '../support/folder.ts';
import { post } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { describeWith } from '../support/requires.ts';
import { type ProxyOptions, type TestProxy } from '../support/service.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { rootToken } from '../support/stub-vault/state.ts';
import { until } from '../support/until.ts';

/** Milliseconds; a minute in production. */
const certificatesEvery = 100;
const day = 86_400_000;

describeWith('openssl')('replaced certificate files (needs the program openssl)', () => {
  let folder: Folder;
  let ca: Ca;
  let other: Ca;
  const starts = harness();

  beforeEach(() => {
    folder = starts.folder();
    ca = new Ca(folder.path, 'ca');
    other = new Ca(folder.path, 'other-ca');
  });

  const at = (name: string): string => folder.at(name);

  const files = (name: string) => ({ certFile: at(`${name}.crt`), keyFile: at(`${name}.key`) });

  /** Writes a certificate and its key to the files of the configuration. */
  function install({ certFile, keyFile }: Issued, name: string): void {
    copyFileSync(keyFile, files(name).keyFile);
    copyFileSync(certFile, files(name).certFile);
  }

  const start = async (options: ProxyOptions): Promise<TestProxy> =>
    starts.proxy({
      gateway: options.gateway ?? (await starts.gateway([always(httpResponse('200 OK', '[]'))])).url,
      certificateCheckInterval: certificatesEvery,
      random: () => 0,
      ...options,
    });

  /** The result of a handshake: the common name of the port, or the error. */
  async function shownBy(url: string): Promise<string> {
    const { hostname: host, port } = new URL(url);
    const socket = connect({ host, port: Number(port), ca: ca.cert });
    return new Promise<string>((resolve) => {
      socket.once('secureConnect', () => resolve(String(socket.getPeerCertificate().subject.CN)));
      socket.once('error', (error: NodeJS.ErrnoException) => resolve(String(error.code)));
    }).finally(() => socket.destroy());
  }

  it.each(['proxy', 'admin'] as const)(
    'of the %s port are used for new connections, without a signal',
    async (port) => {
      install(ca.issue('first'), 'tls');
      const proxy = await start({ config: { [port]: { port: 0, tls: files('tls') } } });
      const url = port === 'proxy' ? proxy.url : proxy.adminUrl;
      expect(await shownBy(url)).toBe('first');
      install(ca.issue('second'), 'tls');
      await until(async () => (await shownBy(url)) === 'second');
      expect(proxy.logText()).not.toContain('unusable');
    },
  );

  it('are used immediately by a reload, which a pair that does not match does not prevent', async () => {
    install(ca.issue('first'), 'tls');
    const config = { proxy: { port: 0, tls: files('tls') } };
    const proxy = await start({ config, certificateCheckInterval: day });
    const { certFile, keyFile } = ca.issue('second');
    copyFileSync(certFile, at('tls.crt'));
    await proxy.reload(config);
    expect(await shownBy(proxy.url)).toBe('first');
    copyFileSync(keyFile, at('tls.key'));
    await proxy.reload(config);
    expect(await shownBy(proxy.url)).toBe('second');
  });

  it('of a gateway CA are used for new connections, and idle ones are closed', async () => {
    let open = 0;
    const counting: Script = async (conversation) => {
      open += 1;
      conversation.socket.once('close', () => (open -= 1));
      await always(httpResponse('200 OK', '[]'))(conversation);
    };
    const gateway = await starts.gateway([counting], other.issue('gateway'));
    copyFileSync(ca.file, at('gateway-ca.crt'));
    const proxy = await start({ gateway: gateway.url, sandbox: { caFile: at('gateway-ca.crt') } });
    expect((await proxy.balance()).status).toBe(502);
    copyFileSync(other.file, at('gateway-ca.crt'));
    await until(async () => (await proxy.balance()).status === 200);
    // On a connection that is kept, other than a second attempt.
    await proxy.balance();
    copyFileSync(ca.file, at('gateway-ca.crt'));
    await until(() => open === 0, 'the kept connection is closed', 3);
    expect((await proxy.balance()).status).toBe(502);
  });

  it.each(['by a check', 'by a reload'])(
    'of Vault, %s, are used for new connections, and cached keys survive',
    async (how) => {
      const clients = new Ca(folder.path, 'clients');
      install(clients.issue('client-1'), 'vault');
      copyFileSync(ca.file, at('vault-ca.crt'));
      const old = await startVault(ca, clients);
      const vault = {
        address: old.address,
        timeout: '1s',
        caFile: at('vault-ca.crt'),
        ...files('vault'),
        auth: { method: 'token' as const, token: rootToken },
      };
      const config = { keys: { source: 'vault' as const, vault } };
      const proxy = await start({
        config,
        certificateCheckInterval: how === 'by a check' ? certificatesEvery : day,
      });
      expect((await proxy.balance()).status).toBe(200);
      const { port } = old;
      await old.close();
      const newClients = new Ca(folder.path, 'new-clients');
      await startVault(other, newClients, port);
      install(newClients.issue('client-2'), 'vault');
      copyFileSync(other.file, at('vault-ca.crt'));
      if (how === 'by a reload') await proxy.reload(config);
      const uncached = `${proxy.url}/sandbox/gw/api/v2/get-balance/manager/uncached`;
      await until(async () => (await post(uncached, '')).status === 200, 'Vault is in use again');
      const fetched = (): Promise<number> => proxy.counted('key_cache_lookups_total', { result: 'fetched' });
      // The other login may have been read in the background, once Vault was back.
      const before = await fetched();
      expect((await proxy.balance()).status).toBe(200);
      expect(await fetched()).toBe(before);
    },
  );

  async function startVault(server: Ca, clients: Ca, port = 0): Promise<StubVault> {
    const { cert, key } = server.issue(`vault-${port}`);
    const vault = starts.closing(new StubVault({ tls: { cert, key, clientCa: clients.cert } }));
    for (const login of ['acme', 'uncached']) vault.put(`gateway/sandbox/${login}`, { control_key: 'first' });
    await vault.listen(port);
    return vault;
  }

  it('are a problem of the configuration if they are not valid now', async () => {
    const { certFile, keyFile } = ca.issue('first');
    const config = {
      proxy: { tls: { certFile, keyFile } },
      environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'gw', caFile: ca.file } },
      keys: { source: 'directory', directory: '.' },
    };
    const file = folder.file('config.yaml', JSON.stringify(config));
    const problemsAt = async (certificatesAt: number) => {
      const read = await loadConfig(file, builtInOperations, { certificatesAt });
      return 'problems' in read ? read.problems.map(({ path, message }) => `${path} ${message}`) : [];
    };
    expect(await problemsAt(Date.now())).toEqual([]);
    expect(await problemsAt(Date.now() + 2 * day)).toEqual([
      expect.stringMatching(/^proxy\.tls\.certFile names a file that expired on \d{4}-\d\d-\d\d: renew it$/),
      expect.stringMatching(/^environments\.sandbox\.caFile names a file that expired on/),
    ]);
  });
});
