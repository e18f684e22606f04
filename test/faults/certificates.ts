import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

/** Whether the program that makes certificates is installed. */
export function hasOpenssl(): boolean {
  return spawnSync('openssl', ['version']).error === undefined;
}

/** A CA, a certificate of it for 127.0.0.1, and one for another name; `NAME.key` and `NAME.crt` each. */
export function makeCertificates(folder: string): void {
  make(folder, 'ca', ['-addext', 'basicConstraints=critical,CA:TRUE']);
  make(folder, 'good', signed(folder, 'IP:127.0.0.1'));
  make(folder, 'wrong-name', signed(folder, 'DNS:gateway.example'));
}

function signed(folder: string, names: string): string[] {
  const ca = ['-CA', join(folder, 'ca.crt'), '-CAkey', join(folder, 'ca.key')];
  return [...ca, '-addext', `subjectAltName=${names}`];
}

const ecCertificate = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'.split(' ');

function make(folder: string, name: string, extra: readonly string[]): void {
  const { status, stderr } = spawnSync('openssl', [
    ...ecCertificate,
    '-keyout',
    join(folder, `${name}.key`),
    '-out',
    join(folder, `${name}.crt`),
    '-subj',
    `/CN=${name}`,
    ...extra,
  ]);
  if (status !== 0) throw new Error(`openssl makes no certificate: ${stderr.toString()}`);
}
