import { copyFileSync } from 'node:fs';
import { connect } from 'node:tls';
import { beforeEach, expect, it } from '@jest/globals';
import { check } from '../../src/cli/check/check.ts';
import { loadConfig } from '../../src/config/load.ts';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { runCommandHere } from '../support/cli.ts';
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
const [minute, hour, day] = [60_000, 3_600_000, 86_400_000];

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

  /** @param endsIn milliseconds until it expires; negative if it has expired. */
  const ending = (name: string, endsIn: number): Issued =>
    ca.issue(name, { from: Date.now() - 2 * hour, until: Date.now() + endsIn });

  const startGateway = (issued?: Issued): Promise<FaultyGateway> =>
    starts.gateway([always(httpResponse('200 OK', '[]'))], issued);

  const start = async (options: ProxyOptions): Promise<TestProxy> =>
    starts.proxy({
      gateway: options.gateway ?? (await startGateway()).url,
      certificateCheckInterval: certificatesEvery,
      random: () => 0,
      ...options,
    });

  function startTls(certificateCheckInterval = certificatesEvery): Promise<TestProxy> {
    install(ca.issue('first'), 'tls');
    return start({ config: { proxy: { port: 0, tls: files('tls') } }, certificateCheckInterval });
  }

  /** The result of a handshake whose client trusts this CA: the common name of the proxy port, or the error. */
  async function shownBy({ url }: Pick<TestProxy, 'url'>, trusted = ca): Promise<string> {
    const { hostname: host, port } = new URL(url);
    const socket = connect({ host, port: Number(port), ca: trusted.cert });
    return new Promise<string>((resolve) => {
      socket.once('secureConnect', () => resolve(String(socket.getPeerCertificate().subject.CN)));
      socket.once('error', (error: NodeJS.ErrnoException) => resolve(String(error.code)));
    }).finally(() => socket.destroy());
  }

  /** Milliseconds until the certificate in use expires, according to the metric. */
  async function timeLeft(proxy: TestProxy, certificate: string): Promise<number> {
    return (await proxy.counted('certificate_expiry_timestamp_seconds', { certificate })) * 1000 - Date.now();
  }

  /** Exit code and output of the command `check`. */
  async function checked(part: object): Promise<{ code: number | null; text: string }> {
    const environments = { sandbox: { baseUrl: 'https://gateway.example', product: 'gw' } };
    const keys = { source: 'directory', directory: '.' };
    const file = folder.file('config.yaml', JSON.stringify({ environments, keys, ...part }));
    const { code, out, err } = await runCommandHere(check, '--config', file);
    return { code, text: out + err };
  }

  it('of the listener are used for new connections, without a signal', async () => {
    const proxy = await startTls();
    expect(await shownBy(proxy)).toBe('first');
    install(ca.issue('second'), 'tls');
    await until(async () => (await shownBy(proxy)) === 'second');
    expect(proxy.logText()).not.toContain('unusable');
  });

  it('are used immediately by a reload, which a pair that does not match does not prevent', async () => {
    const proxy = await startTls(day);
    const { certFile, keyFile } = ca.issue('second');
    copyFileSync(certFile, at('tls.crt'));
    await proxy.reload({ proxy: { port: 0, tls: files('tls') } });
    expect(await shownBy(proxy)).toBe('first');
    copyFileSync(keyFile, at('tls.key'));
    await proxy.reload({ proxy: { port: 0, tls: files('tls') } });
    expect(await shownBy(proxy)).toBe('second');
  });

  it('of the admin port are used for new connections, by a check and by a reload', async () => {
    install(ca.issue('first'), 'tls');
    const config = { admin: { port: 0, tls: files('tls') } };
    const proxies = [
      await start({ config }),
      await start({ config, certificateCheckInterval: day }),
    ] as const;
    const shown = ({ adminUrl }: TestProxy) => shownBy({ url: adminUrl });
    expect(await Promise.all(proxies.map(shown))).toEqual(['first', 'first']);
    install(ca.issue('second'), 'tls');
    await until(async () => (await shown(proxies[0])) === 'second');
    await proxies[1].reload(config);
    expect(await shown(proxies[1])).toBe('second');
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

  it('of the listener that expire are reported by the metric and by `check`, until they are replaced', async () => {
    install(ending('long', hour), 'tls');
    const tls = files('tls');
    const proxy = await start({ config: { proxy: { port: 0, tls } } });
    // Only now, because a busy machine may take seconds to start.
    install(ending('short', 3000), 'tls');
    await until(async () => (await timeLeft(proxy, 'listener')) < minute);
    expect(await shownBy(proxy)).toBe('short');
    const left = await timeLeft(proxy, 'listener');
    expect(left).toBeLessThan(3000);
    expect(left).toBeGreaterThan(-1000);
    await until(async () => (await timeLeft(proxy, 'listener')) < 0);
    // OpenSSL's clock may be some milliseconds behind.
    await until(async () => (await shownBy(proxy)) === 'CERT_HAS_EXPIRED');
    const problem = await checked({ proxy: { tls } });
    expect(problem.code).toBe(2);
    expect(problem.text).toMatch(
      /proxy\.tls\.certFile: names a file that expired on \d{4}-\d\d-\d\d: renew it/,
    );

    install(ending('renewed', hour), 'tls');
    await until(async () => (await shownBy(proxy)) === 'renewed');
    expect(await timeLeft(proxy, 'listener')).toBeGreaterThan(hour - minute);
    expect(await checked({ proxy: { tls } })).toMatchObject({ code: 0 });
  });

  it('of the Vault client that expired are reported by the metric and by `check`, until they are replaced', async () => {
    const { cert, key } = ending('vault', hour);
    const vault = starts.closing(new StubVault({ tls: { cert, key, clientCa: ca.cert } }));
    vault.put('gateway/sandbox/acme', { control_key: 'first' });
    const address = await vault.listen();
    install(ending('expired', -minute), 'client');
    const auth = { method: 'token' as const, token: rootToken };
    const keys = {
      source: 'vault' as const,
      vault: { address, timeout: '1s', caFile: ca.file, ...files('client'), auth },
    };
    const proxy = await start({ config: { keys } });
    expect((await proxy.balance()).status).toBe(503);
    expect(await timeLeft(proxy, 'vault-client')).toBeLessThan(0);
    expect(await proxy.counted('key_source_up')).toBe(0);
    const problem = await checked({ keys });
    expect(problem.code).toBe(2);
    expect(problem.text).toMatch(/keys\.vault\.certFile: names a file that expired on .*: renew it/);

    install(ending('renewed', hour), 'client');
    await until(async () => (await proxy.balance()).status === 200);
    expect(await timeLeft(proxy, 'vault-client')).toBeGreaterThan(hour - minute);
    expect(await checked({ keys })).toMatchObject({ code: 0 });
  });

  it('of Vault that expired are logged once with the cause, until Vault has another', async () => {
    const vault = starts.closing(new StubVault({ tls: ending('expired', -minute) }));
    vault.put('gateway/sandbox/acme', { control_key: 'first' });
    const address = await vault.listen();
    const auth = { method: 'token' as const, token: rootToken };
    const keys = { source: 'vault' as const, vault: { address, timeout: '1s', caFile: ca.file, auth } };
    const proxy = await start({ config: { keys } });
    expect((await proxy.balance()).status).toBe(503);
    const outageLines = () => proxy.logLines().filter(({ msg }) => String(msg).startsWith('key source'));
    const beginning = { level: 'error', msg: 'key source unavailable' };
    const cause = expect.stringContaining('Vault cannot be reached (TLS: CERT_HAS_EXPIRED)');
    expect(outageLines()).toEqual([expect.objectContaining({ ...beginning, cause })]);

    vault.show(ending('renewed', hour));
    await until(async () => (await proxy.balance()).status === 200);
    const end = { level: 'info', msg: 'key source available again' };
    expect(outageLines()).toEqual([expect.objectContaining(beginning), expect.objectContaining(end)]);
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
