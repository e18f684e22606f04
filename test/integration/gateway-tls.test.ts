import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TlsOptions } from 'node:tls';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { always, type FaultyGateway, reply, startFaultyGateway } from '../support/faulty-gateway.ts';
import { askBalance, exchanges, transfer, verdict } from '../support/forwarding.ts';
import { describeWith } from '../support/requires.ts';
import { startProxy, type TestProxy } from '../support/service.ts';

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

const unreachable = '502 gateway-unreachable not-sent not-sent';

/** Certificates are made with openssl; these tests are skipped if it is not installed. */
describeWith('openssl')('a gateway with TLS', () => {
  let folder = '';
  const file = (name: string): string => join(folder, name);

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'countersign-tls-'));
    makeCertificate(folder, 'ca', ['-addext', 'basicConstraints=critical,CA:TRUE']);
    makeCertificate(folder, 'other-ca', ['-addext', 'basicConstraints=critical,CA:TRUE']);
    makeCertificate(folder, 'good', signedBy('ca', 'subjectAltName=IP:127.0.0.1'));
    makeCertificate(folder, 'wrong-name', signedBy('ca', 'subjectAltName=DNS:gateway.example,IP:127.0.0.2'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  function signedBy(ca: string, names: string): string[] {
    return ['-CA', file(`${ca}.crt`), '-CAkey', file(`${ca}.key`), '-addext', names];
  }

  async function start(
    certificate: string,
    caFile: string | undefined,
    tls: TlsOptions = {},
  ): Promise<{ gateway: FaultyGateway; proxy: TestProxy }> {
    const gateway = await startFaultyGateway([always(reply('200 OK', '[]'))], {
      cert: readFileSync(file(`${certificate}.crt`)),
      key: readFileSync(file(`${certificate}.key`)),
      ...tls,
    });
    const sandbox = caFile === undefined ? {} : { caFile: file(caFile) };
    const proxy = await startProxy({ gateway: gateway.url, sandbox, random: () => 0 });
    stops.push(gateway.close, () => proxy.stop());
    return { gateway, proxy };
  }

  it('and a certificate of the configured CA gets the request', async () => {
    const { gateway, proxy } = await start('good', 'ca.crt');
    expect(await transfer(proxy)).toMatchObject({ status: 200, body: '[]' });
    expect(gateway.requests()).toHaveLength(1);
  });

  it('has its connections reused for read-only operations only', async () => {
    const { gateway, proxy } = await start('good', 'ca.crt');
    for (let turn = 0; turn < 5; turn += 1) expect(await askBalance(proxy)).toMatchObject({ status: 200 });
    expect(gateway.connections()).toBe(1);
    for (let turn = 0; turn < 3; turn += 1) expect(await transfer(proxy)).toMatchObject({ status: 200 });
    expect(gateway.connections()).toBe(4);
  });

  it.each([
    ['of an unknown CA', 'good', undefined],
    ['of another CA than the configured one', 'good', 'other-ca.crt'],
    ['for another name', 'wrong-name', 'ca.crt'],
  ])('and a certificate %s gets no byte of the request', async (_what, certificate, caFile) => {
    const { gateway, proxy } = await start(certificate, caFile);
    for (const ask of [transfer, askBalance]) expect(verdict(await ask(proxy))).toBe(unreachable);
    expect(gateway.received()).toBe('');
    for (const line of await exchanges(proxy, 2)) {
      expect(line).toMatchObject({ reason: 'gateway-unreachable', outcome: 'not-sent', attempts: 3 });
    }
  });

  it('of an old TLS version gets nothing', async () => {
    const tls: TlsOptions = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' };
    const { gateway, proxy } = await start('good', 'ca.crt', tls);
    expect(verdict(await transfer(proxy))).toBe(unreachable);
    expect(gateway.received()).toBe('');
  });

  it('that requires a client certificate closes after the handshake: the outcome is unknown', async () => {
    const tls: TlsOptions = { requestCert: true, rejectUnauthorized: true, ca: readFileSync(file('ca.crt')) };
    const { gateway, proxy } = await start('good', 'ca.crt', tls);
    expect(verdict(await transfer(proxy))).toBe('502 gateway-reset unknown unknown');
    expect(gateway.requests()).toHaveLength(0);
  });

  it('without TLS gets nothing', async () => {
    const gateway = await startFaultyGateway([always(reply('200 OK', '[]'))]);
    const sandbox = { timeouts: { connect: '150ms', request: '400ms' } };
    const proxy = await startProxy({ gateway: gateway.url.replace('http:', 'https:'), sandbox });
    stops.push(gateway.close, () => proxy.stop());
    expect(verdict(await transfer(proxy))).toBe(unreachable);
    expect(gateway.received()).not.toContain('oauth');
  });
});

/** A key and a certificate for it, self-signed unless `extra` has an issuer. */
function makeCertificate(folder: string, name: string, extra: readonly string[]): void {
  const out = ['-keyout', join(folder, `${name}.key`), '-out', join(folder, `${name}.crt`)];
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const { status, stderr } = spawnSync('openssl', [
    'req',
    '-x509',
    ...key,
    ...out,
    '-subj',
    `/CN=${name}`,
    ...extra,
  ]);
  if (status !== 0) throw new Error(`openssl makes no certificate: ${stderr.toString()}`);
}
