import { execFileSync } from 'node:child_process';
import { beforeEach, expect, it } from '@jest/globals';
import { paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { opensslClient, weakest } from '../support/openssl-peers.ts';
import { formRequest } from '../support/raw-http.ts';
import { describeWith } from '../support/requires.ts';
import { Ca } from '../support/stub-vault/certificates.ts';

/** Accepted, per kind of certificate. */
const suites = {
  rsa: ['ECDHE-RSA-AES128-GCM-SHA256', 'ECDHE-RSA-AES256-GCM-SHA384', 'ECDHE-RSA-CHACHA20-POLY1305'],
  ecdsa: ['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-AES256-GCM-SHA384', 'ECDHE-ECDSA-CHACHA20-POLY1305'],
};
const suites13 = ['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256'];

describeWith('openssl')('the TLS policy', () => {
  const starts = harness();
  let ca: Ca;

  beforeEach(() => {
    ca = new Ca(starts.folder().path, 'ca');
  });

  async function startWith(kind: keyof typeof suites): Promise<string> {
    const { certFile, keyFile } = ca.issue(kind, { rsa: kind === 'rsa' });
    const { url } = await starts.proxy({ config: { proxy: { port: 0, tls: { certFile, keyFile } } } });
    return url;
  }

  it.each(['rsa', 'ecdsa'] as const)(
    'of the proxy port accepts, of all suites that OpenSSL knows, %s ones with forward secrecy and AEAD',
    async (kind) => {
      const url = await startWith(kind);
      const negotiated = await Promise.all(
        allSuites().map(async (suite) => {
          const args = ['-tls1_2', '-cipher', `${suite}:${weakest}`];
          return (await opensslClient(url, args, formRequest(paths.balance))).negotiated;
        }),
      );
      const accepted = negotiated.filter((name) => name !== undefined);
      expect(accepted.toSorted()).toEqual(suites[kind].map((suite) => `TLSv1.2 ${suite}`));
    },
    60_000,
  );

  it('of the proxy port accepts the suites of TLS 1.3', async () => {
    const url = await startWith('ecdsa');
    const runs = suites13.map((suite) => opensslClient(url, ['-tls1_3', '-ciphersuites', suite]));
    const negotiated = (await Promise.all(runs)).map((run) => run.negotiated);
    expect(negotiated).toEqual(suites13.map((suite) => `TLSv1.3 ${suite}`));
  });

  it.each(['-tls1', '-tls1_1'])('of the proxy port rejects %s', async (version) => {
    const url = await startWith('rsa');
    const { negotiated, output } = await opensslClient(url, [version, '-cipher', `ALL:${weakest}`]);
    expect(negotiated).toBeUndefined();
    expect(output).toContain('alert protocol version');
  });
});

/** Of TLS 1.2 and before, without those that need a shared secret. */
function allSuites(): string[] {
  const list = execFileSync('openssl', ['ciphers', '-tls1_2', '-s', `ALL:COMPLEMENTOFALL:${weakest}`]);
  return list
    .toString()
    .trim()
    .split(':')
    .filter((suite) => !suite.startsWith('TLS_'));
}
