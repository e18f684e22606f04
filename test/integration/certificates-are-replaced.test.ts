import { copyFileSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { connect } from 'node:tls';
import { beforeEach, expect, it } from '@jest/globals';
import { loadConfig } from '../../src/config/load.ts';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { always, type FaultyGateway, httpResponse, type Script } from '../support/faulty-gateway.ts';
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

  /** Writes a certificate and its key to the files of the configuration. */
  function install({ certFile, keyFile }: Issued, name: string): void {
    copyFileSync(certFile, at(`${name}.crt`));
    copyFileSync(keyFile, at(`${name}.key`));
  }

  const startGateway = (issued?: Issued): Promise<FaultyGateway> =>
    starts.gateway([always(httpResponse('200 OK', '[]'))], issued);

  const start = (options: ProxyOptions): Promise<TestProxy> =>
    starts.proxy({ certificateCheckInterval: certificatesEvery, random: () => 0, ...options });

  /** Common name of the certificate of the proxy port. */
  async function shownBy({ url }: Pick<TestProxy, 'url'>): Promise<string> {
    const { hostname: host, port } = new URL(url);
    const socket = connect({ host, port: Number(port), rejectUnauthorized: false });
    await new Promise((resolve) => {
      socket.once('secureConnect', resolve);
    });
    const { CN } = socket.getPeerCertificate().subject;
    socket.destroy();
    return String(CN);
  }

  const unusable = (proxy: TestProxy) =>
    proxy.logLines().filter(({ msg }) => String(msg).startsWith('certificate files are unusable'));

  async function startTls(certificateCheckInterval = certificatesEvery): Promise<TestProxy> {
    install(ca.issue('first'), 'tls');
    const tls = { certFile: at('tls.crt'), keyFile: at('tls.key') };
    const gateway = await startGateway();
    return start({ gateway: gateway.url, config: { proxy: { port: 0, tls } }, certificateCheckInterval });
  }

  it('of the listener are used for new connections, without a signal', async () => {
    const proxy = await startTls();
    expect(await shownBy(proxy)).toBe('first');
    install(ca.issue('second'), 'tls');
    await until(async () => (await shownBy(proxy)) === 'second');
    expect(unusable(proxy)).toEqual([]);
  });

  it('that do not match are not used, and are an error at the second check', async () => {
    const proxy = await startTls();
    const { certFile, keyFile } = ca.issue('second');
    copyFileSync(certFile, at('tls.crt'));
    await until(() => unusable(proxy).length > 0);
    expect(unusable(proxy)).toEqual([
      expect.objectContaining({
        level: 'error',
        role: 'listener',
        fault: `${at('tls.key')} does not match the certificate`,
      }),
    ]);
    expect(await shownBy(proxy)).toBe('first');
    copyFileSync(keyFile, at('tls.key'));
    await until(async () => (await shownBy(proxy)) === 'second');
  });

  it('are no error if certificate and key are replaced one after the other between two checks', async () => {
    const interval = 5 * certificatesEvery;
    const proxy = await startTls(interval);
    const { certFile, keyFile } = ca.issue('second');
    copyFileSync(certFile, at('tls.crt'));
    // Less than the interval: one check at most is between the two.
    await wait(interval * 0.8);
    copyFileSync(keyFile, at('tls.key'));
    await until(async () => (await shownBy(proxy)) === 'second');
    expect(unusable(proxy)).toEqual([]);
  });

  it('that are invalid or missing leave the previous ones in use', async () => {
    const proxy = await startTls();
    writeFileSync(at('tls.crt'), 'MARK');
    await until(() => unusable(proxy).length === 1);
    expect(await shownBy(proxy)).toBe('first');
    expect(proxy.logText()).not.toContain('MARK');
    rmSync(at('tls.crt'));
    await wait(300);
    expect(await shownBy(proxy)).toBe('first');
  });

  it('are used immediately by a reload, which a pair that does not match does not prevent', async () => {
    install(ca.issue('first'), 'tls');
    const tls = { certFile: at('tls.crt'), keyFile: at('tls.key') };
    const gateway = await startGateway();
    const config = { proxy: { port: 0, tls } };
    const proxy = await start({ gateway: gateway.url, config, certificateCheckInterval: day });
    const { certFile, keyFile } = ca.issue('second');
    copyFileSync(certFile, at('tls.crt'));
    await proxy.reload(config);
    expect(await shownBy(proxy)).toBe('first');
    copyFileSync(keyFile, at('tls.key'));
    await proxy.reload(config);
    expect(await shownBy(proxy)).toBe('second');
  });

  it('of the admin port are used for new connections, by a check and by a reload', async () => {
    install(ca.issue('first'), 'tls');
    const config = { admin: { port: 0, tls: { certFile: at('tls.crt'), keyFile: at('tls.key') } } };
    const [checking, reloaded] = [
      await start({ config }),
      await start({ config, certificateCheckInterval: day }),
    ];
    const shown = ({ adminUrl }: TestProxy) => shownBy({ url: adminUrl });
    expect([await shown(checking), await shown(reloaded)]).toEqual(['first', 'first']);
    install(ca.issue('second'), 'tls');
    await until(async () => (await shown(checking)) === 'second');
    await reloaded.reload(config);
    expect(await shown(reloaded)).toBe('second');
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

  it.each(['by a check', 'by a reload', 'as soon as TLS fails'])(
    'of Vault, %s, are used for new connections, and cached keys survive',
    async (how) => {
      const clients = new Ca(folder.path, 'clients');
      install(clients.issue('client-1'), 'vault');
      copyFileSync(ca.file, at('vault-ca.crt'));
      const old = await startVault(ca, clients);
      const gateway = await startGateway();
      const vault = {
        address: old.address,
        timeout: '1s',
        caFile: at('vault-ca.crt'),
        certFile: at('vault.crt'),
        keyFile: at('vault.key'),
        auth: { method: 'token' as const, token: rootToken },
      };
      const config = { keys: { source: 'vault' as const, vault } };
      const proxy = await start({
        gateway: gateway.url,
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

  it('have their expiry in the metrics', async () => {
    install(ca.issue('first'), 'tls');
    const gateway = await startGateway();
    const tls = { certFile: at('tls.crt'), keyFile: at('tls.key'), clientCaFile: ca.file };
    const proxy = await start({
      gateway: gateway.url,
      sandbox: { caFile: other.file },
      config: { proxy: { port: 0, tls } },
    });
    const tomorrow = (Date.now() + day) / 1000;
    for (const [certificate, environment] of [
      ['listener', 'none'],
      ['listener-client-ca', 'none'],
      ['gateway-ca', 'sandbox'],
    ] as const) {
      const labels = { certificate, environment };
      const ends = await proxy.counted('certificate_expiry_timestamp_seconds', labels);
      expect(Math.abs(ends - tomorrow)).toBeLessThan(60);
      const from = await proxy.counted('certificate_not_before_timestamp_seconds', labels);
      expect(Math.abs(ends - from - 86_400)).toBeLessThan(60);
    }
    await proxy.reload({ proxy: { port: 0, tls: { certFile: at('tls.crt'), keyFile: at('tls.key') } } });
    const gone = { certificate: 'listener-client-ca' };
    expect(await proxy.counted('certificate_expiry_timestamp_seconds', gone)).toBe(0);
  });

  it('are checked before they are used: match, syntax and dates', async () => {
    const first = ca.issue('first');
    const second = ca.issue('second');
    folder.file('junk.pem', '-----BEGIN CERTIFICATE-----\nMARK\n-----END CERTIFICATE-----\n');
    const file = (certFile: string, keyFile: string, caFile: string) =>
      folder.file(
        'config.yaml',
        JSON.stringify({
          proxy: { tls: { certFile, keyFile } },
          environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'gw', caFile } },
          keys: { source: 'directory', directory: '.' },
        }),
      );
    const problems = async (path: string, now = Date.now()) => {
      const read = await loadConfig(path, builtInOperations, { certificatesAt: now });
      return 'problems' in read ? read.problems.map(({ path, message }) => `${path} ${message}`) : [];
    };
    expect(await problems(file(first.certFile, first.keyFile, ca.file))).toEqual([]);
    expect(await problems(file(first.certFile, second.keyFile, at('junk.pem')))).toEqual([
      'proxy.tls.keyFile names a file that does not match the certificate',
      'environments.sandbox.caFile names a file that contains no valid PEM certificate',
    ]);
    expect(await problems(file(first.keyFile, first.certFile, ca.file))).toEqual([
      expect.stringContaining('proxy.tls.certFile names a file that contains no valid PEM certificate'),
      expect.stringContaining('proxy.tls.keyFile names a file that is not an unencrypted PEM private key'),
    ]);
    const good = file(first.certFile, first.keyFile, ca.file);
    expect(await problems(good, Date.now() + 2 * day)).toEqual([
      expect.stringMatching(/^proxy\.tls\.certFile names a file that expired on \d{4}-\d\d-\d\d: renew it$/),
      expect.stringMatching(/^environments\.sandbox\.caFile names a file that expired on/),
    ]);
    expect(await problems(good, Date.now() - 2 * day)).toEqual([
      expect.stringContaining('is not valid before'),
      expect.stringContaining('is not valid before'),
    ]);
  });
});
