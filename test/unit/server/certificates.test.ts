import { X509Certificate } from 'node:crypto';
import { copyFileSync, readFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { type Config, configSchema } from '../../../src/config/schema.ts';
import { CertificateFiles } from '../../../src/server/certificates.ts';
import { configFor } from '../../support/config.ts';
import { Folder } from '../../support/folder.ts';
import { Ca, type Issued } from '../../support/stub-vault/certificates.ts';

let folder: Folder;
let [first, second]: Issued[] = [];
let events: string[];
let files: CertificateFiles;

beforeEach(() => {
  folder = new Folder();
  const ca = new Ca(folder.path, 'ca');
  [first, second] = [ca.issue('first'), ca.issue('second')];
  events = [];
  files = new CertificateFiles({ message: (_level, message) => void events.push(message) });
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
  files.use(await files.prepare(withTls()));
  place(second);
  events = [];
  const renewed: string[] = [];
  await files.check(({ role }) => void renewed.push(role));
  expect([renewed, events]).toEqual([['listener'], ['certificate files reloaded']]);
  await files.check(({ role }) => void renewed.push(role));
  expect(renewed).toHaveLength(1);
});

it('a check in flight does not put back a certificate that a reload removed', async () => {
  place(first);
  files.use(await files.prepare(withTls()));
  const without = await files.prepare(plain());
  place(second);
  const renewed: string[] = [];
  const checking = files.check(({ role }) => void renewed.push(role));
  files.use(without);
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
  const sandbox = { baseUrl: 'https://127.0.0.1:9', product: 'gw', caFile: tls.certFile };
  const config = configFor('http://127.0.0.1:9', { proxy: { tls }, environments: { sandbox } });
  files.use(await files.prepare(configSchema.parse(config)));
  expect(files.inUse()).toEqual([
    { name: 'listener', environment: undefined, ...validity },
    { name: 'gateway-ca', environment: 'sandbox', ...validity },
  ]);
  const before = files.inUse();
  await files.check(() => {});
  expect(files.inUse()).toEqual(before);
  files.use(await files.prepare(plain()));
  expect(files.inUse()).toEqual([]);
});

it('unusable files are reported at their second check, and the previous ones stay in use', async () => {
  place(first);
  files.use(await files.prepare(withTls()));
  events = [];
  folder.file('used.crt', 'no certificate');
  const renewed: string[] = [];
  for (let nth = 0; nth < 3; nth += 1) await files.check(({ role }) => void renewed.push(role));
  expect([renewed, events]).toEqual([[], ['certificate files are unusable; keeping the previous ones']]);
});

it('files that are unusable for one check each time are not reported', async () => {
  place(first);
  files.use(await files.prepare(withTls()));
  events = [];
  for (let nth = 0; nth < 2; nth += 1) {
    folder.file('used.crt', 'no certificate');
    await files.check(() => {});
    place(first);
    await files.check(() => {});
  }
  expect(events).toEqual([]);
});
