import { X509Certificate } from 'node:crypto';
import { copyFileSync, readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { type Config, configSchema } from '../../../src/config/schema.ts';
import { CertificateFiles } from '../../../src/service/certificates.ts';
import { configFor } from '../../support/config.ts';
import { Folder } from '../../support/folder.ts';
import { Ca, type Issued } from '../../support/stub-vault/certificates.ts';

let folder: Folder;
let [first, second]: Issued[] = [];
let events: string[];
let faults: unknown[];
let files: CertificateFiles;

/** Those of a configuration that takes the place of the one before it in the same test. */
async function use(config: Config, previous?: CertificateFiles): Promise<CertificateFiles> {
  const log = {
    message: (_level: string, message: string, { fault }: { fault?: unknown } = {}) => {
      events.push(message);
      if (fault !== undefined) faults.push(fault);
    },
  };
  files = await CertificateFiles.read(config, log, previous);
  previous?.stop();
  return files;
}

beforeEach(() => {
  folder = new Folder();
  const ca = new Ca(folder.path, 'ca');
  [first, second] = [ca.issue('first'), ca.issue('second', { until: Date.now() + 9_000_000 })];
  [events, faults] = [[], []];
});
afterEach(() => folder.remove());

const plain = (): Config => configSchema.parse(configFor('http://127.0.0.1:9', {}));

function withTls(): Config {
  const tls = { certFile: folder.at('used.crt'), keyFile: folder.at('used.key') };
  return configSchema.parse(configFor('http://127.0.0.1:9', { proxy: { tls } }));
}

function place(certificate: Issued | undefined): void {
  if (certificate === undefined) throw new TypeError('not issued');
  copyFileSync(certificate.certFile, folder.at('used.crt'));
  copyFileSync(certificate.keyFile, folder.at('used.key'));
}

it('a replaced certificate is used at the next check', async () => {
  place(first);
  await use(withTls());
  place(second);
  events = [];
  const renewed: string[] = [];
  const [before] = files.inUse();
  await files.check(({ role }) => void renewed.push(role));
  expect([renewed, events]).toEqual([['listener'], ['certificate files reloaded']]);
  expect(files.inUse()[0]?.until).toBeLessThan(before?.until ?? 0);
  await files.check(({ role }) => void renewed.push(role));
  expect(renewed).toHaveLength(1);
});

it('a check in flight does not put back a certificate that a reload removed', async () => {
  place(first);
  const before = await use(withTls());
  place(second);
  const renewed: string[] = [];
  const checking = before.check(({ role }) => void renewed.push(role));
  await use(plain(), before);
  events = [];
  await checking;
  expect([renewed, events]).toEqual([[], []]);
  await files.check(({ role }) => void renewed.push(role));
  expect(renewed).toEqual([]);
});

it('those in use have the name of their metric, the environment and the validity, until a reload removes them', async () => {
  place(first);
  const { validFromDate, validToDate } = new X509Certificate(readFileSync(folder.at('used.crt')));
  const validity = { from: validFromDate.getTime(), until: validToDate.getTime() };
  const tls = { certFile: folder.at('used.crt'), keyFile: folder.at('used.key') };
  const withCa = { ...tls, caFile: tls.certFile };
  const egressProxy = { url: 'https://127.0.0.1:9', caFile: tls.certFile };
  const sandbox = { baseUrl: 'https://127.0.0.1:9', product: 'gw', ...withCa, egressProxy };
  const ports = { ...tls, clientCaFile: tls.certFile };
  const config = configFor('http://127.0.0.1:9', {
    proxy: { tls: ports },
    admin: { tls: ports },
    environments: { sandbox },
    keys: {
      source: 'vault',
      vault: { address: 'https://127.0.0.1:9', auth: { method: 'token', token: 'x' }, ...withCa },
    },
  });
  await use(configSchema.parse(config));
  const own = (name: string, environment?: string) => ({ name, environment, ...validity });
  const names = 'listener listener-client-ca admin admin-client-ca vault-client vault-ca'.split(' ');
  const ofGateway = ['gateway-client', 'gateway-ca', 'gateway-proxy-ca'];
  expect(new Set(files.inUse())).toEqual(
    new Set([...names.map((name) => own(name)), ...ofGateway.map((name) => own(name, 'sandbox'))]),
  );
  const before = files.inUse();
  await files.check(() => {});
  expect(files.inUse()).toEqual(before);
  await use(plain(), files);
  expect(files.inUse()).toEqual([]);
});

it('unusable files are reported at their second check, and the previous ones stay in use', async () => {
  place(first);
  await use(withTls());
  events = [];
  folder.file('used.crt', 'no certificate');
  const renewed: string[] = [];
  const check = async (times: number): Promise<void> => {
    for (let nth = 0; nth < times; nth += 1) await files.check(({ role }) => void renewed.push(role));
  };
  const message = 'certificate files are unusable; keeping the previous ones';
  await check(1);
  // Usable again in between, as after writing a certificate and then its key.
  place(first);
  await check(1);
  folder.file('used.crt', 'no certificate');
  await check(1);
  expect(events).toEqual([]);
  await check(3);
  expect([renewed, events]).toEqual([[], [message]]);
  expect(faults).toEqual([expect.stringContaining(`${folder.at('used.crt')} `)]);
});

it('an older revocation list than the one in use is refused: a revoked certificate would be accepted again', async () => {
  const ca = new Ca(folder.path, 'listing-ca');
  const issued = ca.issue('server');
  const older = ca.revocationList();
  // Lists have whole seconds.
  await setTimeout(1_100);
  const newer = ca.revocationList(ca.issue('revoked'));
  const own = { certFile: issued.certFile, keyFile: issued.keyFile, clientCaFile: ca.file };
  const configWith = (name: string): Config => {
    const tls = { ...own, clientCrlFile: folder.at(name) };
    return configSchema.parse(configFor('http://127.0.0.1:9', { proxy: { tls } }));
  };
  folder.file('used.crl', newer);
  await use(configWith('used.crl'));
  events = [];
  const renewed: string[] = [];
  const check = () => files.check((_user, { crl }) => void renewed.push(crl ?? ''));
  folder.file('used.crl', older);
  await check();
  await check();
  expect([renewed, events]).toEqual([[], ['certificate files are unusable; keeping the previous ones']]);
  expect(faults).toEqual([
    expect.stringContaining('used.crl has a revocation list that is older than the one in use'),
  ]);
  // The status has it until a check finds usable files.
  expect(files.inUse().map(({ problem }) => problem)).toEqual([faults[0], faults[0], faults[0]]);
  folder.file('used.crl', newer);
  await check();
  expect(files.inUse().map(({ problem }) => problem)).toEqual([undefined, undefined, undefined]);
  folder.file('used.crl', older);
  // Neither does a reload take it, under the same name or another.
  await use(configWith('used.crl'), files);
  folder.file('other.crl', older);
  await expect(use(configWith('other.crl'), files)).rejects.toThrow('is older than the one in use');
  folder.file('used.crl', newer);
  await check();
  const newest = ca.revocationList();
  folder.file('used.crl', newest);
  await check();
  expect(renewed).toEqual([newest]);
});
