import { copyFileSync } from 'node:fs';
import { connect } from 'node:tls';
import { beforeEach, expect, it } from '@jest/globals';
import { check } from '../../src/cli/check/check.ts';
import { runCommandHere } from '../support/cli.ts';
import { type ConfigInput } from '../support/config.ts';
import { always, httpResponse } from '../support/faulty-gateway.ts';
import { Folder } from '../support/folder.ts';
import { harness } from '../support/harness.ts';
import { describeWith } from '../support/requires.ts';
import { type TestProxy } from '../support/service.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';
import { StubVault } from '../support/stub-vault/server.ts';
import { rootToken } from '../support/stub-vault/state.ts';
import { until } from '../support/until.ts';

/** Milliseconds. */
const [minute, hour] = [60_000, 3_600_000];
/** Milliseconds between checks of the files; a minute in production. */
const certificatesEvery = 100;

describeWith('openssl')('a certificate that has expired (needs the program openssl)', () => {
  let folder: Folder;
  let ca: Ca;
  const starts = harness();

  beforeEach(() => {
    folder = starts.folder();
    ca = new Ca(folder.path, 'ca');
  });

  const files = (name: string) => ({ certFile: folder.at(`${name}.crt`), keyFile: folder.at(`${name}.key`) });

  /** Writes a certificate and its key to the files of the configuration. */
  function install({ certFile, keyFile }: Issued, name: string): void {
    copyFileSync(keyFile, files(name).keyFile);
    copyFileSync(certFile, files(name).certFile);
  }

  /** @param endsIn milliseconds until it expires; negative if it has expired. */
  function issue(name: string, endsIn: number): Issued {
    return ca.issue(name, { from: Date.now() - 2 * hour, until: Date.now() + endsIn });
  }

  async function start(config: Partial<ConfigInput>): Promise<TestProxy> {
    const options = { config, certificateCheckInterval: certificatesEvery, random: () => 0 };
    return (await starts.pair([always(httpResponse('200 OK', '[]'))], options)).proxy;
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

  /** The result of a request whose client verifies the listener's certificate. */
  function handshake(proxy: TestProxy): Promise<string> {
    const { hostname: host, port } = new URL(proxy.url);
    const socket = connect({ host, port: Number(port), ca: ca.cert });
    return new Promise<string>((resolve) => {
      socket.once('secureConnect', () => resolve('good'));
      socket.once('error', (error: NodeJS.ErrnoException) => resolve(String(error.code)));
    }).finally(() => socket.destroy());
  }

  it('on the listener is reported by the metric and by `check`, until it is replaced', async () => {
    install(issue('long', hour), 'tls');
    const tls = files('tls');
    const proxy = await start({ proxy: { port: 0, tls } });
    // Only now, because a busy machine may take seconds to start.
    install(issue('short', 3000), 'tls');
    await until(async () => (await timeLeft(proxy, 'listener')) < minute);
    expect(await handshake(proxy)).toBe('good');
    const left = await timeLeft(proxy, 'listener');
    expect(left).toBeLessThan(3000);
    expect(left).toBeGreaterThan(-1000);
    await until(async () => (await timeLeft(proxy, 'listener')) < 0);
    // OpenSSL's clock may be some milliseconds behind.
    await until(async () => (await handshake(proxy)) === 'CERT_HAS_EXPIRED');
    const problem = await checked({ proxy: { tls } });
    expect(problem.code).toBe(2);
    expect(problem.text).toMatch(
      /proxy\.tls\.certFile: names a file that expired on \d{4}-\d\d-\d\d: renew it/,
    );

    install(issue('renewed', hour), 'tls');
    await until(async () => (await handshake(proxy)) === 'good');
    expect(await timeLeft(proxy, 'listener')).toBeGreaterThan(hour - minute);
    expect(await checked({ proxy: { tls } })).toMatchObject({ code: 0 });
  });

  it('of the Vault client is reported by the metric and by `check`, until it is replaced', async () => {
    const { cert, key } = issue('vault', hour);
    const vault = starts.closing(new StubVault({ tls: { cert, key, clientCa: ca.cert } }));
    vault.put('gateway/sandbox/acme', { control_key: 'first' });
    const address = await vault.listen();
    install(issue('expired', -minute), 'client');
    const auth = { method: 'token' as const, token: rootToken };
    const keys = {
      source: 'vault' as const,
      vault: { address, timeout: '1s', caFile: ca.file, ...files('client'), auth },
    };
    const proxy = await start({ keys });
    expect((await proxy.balance()).status).toBe(503);
    expect(await timeLeft(proxy, 'vault-client')).toBeLessThan(0);
    expect(await proxy.counted('key_source_up')).toBe(0);
    const problem = await checked({ keys });
    expect(problem.code).toBe(2);
    expect(problem.text).toMatch(/keys\.vault\.certFile: names a file that expired on .*: renew it/);

    install(issue('renewed', hour), 'client');
    await until(async () => (await proxy.balance()).status === 200);
    expect(await timeLeft(proxy, 'vault-client')).toBeGreaterThan(hour - minute);
    expect(await checked({ keys })).toMatchObject({ code: 0 });
  });

  it('of Vault is logged once with its cause, until Vault has another', async () => {
    const vault = starts.closing(new StubVault({ tls: issue('expired', -minute) }));
    vault.put('gateway/sandbox/acme', { control_key: 'first' });
    const address = await vault.listen();
    const auth = { method: 'token' as const, token: rootToken };
    const proxy = await start({
      keys: { source: 'vault', vault: { address, timeout: '1s', caFile: ca.file, auth } },
    });
    expect((await proxy.balance()).status).toBe(503);
    const outageLines = () => proxy.logLines().filter(({ msg }) => String(msg).startsWith('key source'));
    const beginning = { level: 'error', msg: 'key source unavailable' };
    const cause = expect.stringContaining('Vault cannot be reached (TLS: CERT_HAS_EXPIRED)');
    expect(outageLines()).toEqual([expect.objectContaining({ ...beginning, cause })]);

    vault.show(issue('renewed', hour));
    await until(async () => (await proxy.balance()).status === 200);
    const end = { level: 'info', msg: 'key source available again' };
    expect(outageLines()).toEqual([expect.objectContaining(beginning), expect.objectContaining(end)]);
  });
});
