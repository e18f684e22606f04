import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Issued {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: Buffer;
  readonly key: Buffer;
}

interface IssueOptions {
  /** Milliseconds since 1970; now unless given. */
  readonly from?: number;
  /** Milliseconds since 1970; in one day unless given. */
  readonly until?: number;
  /** Subject alternative names; 127.0.0.1 unless given. */
  readonly names?: string;
  /** Of its key: of 2048 bits instead of P-256. */
  readonly rsa?: boolean;
}

const day = 86_400_000;

/** A throwaway CA in a directory, made with `openssl`. */
export class Ca {
  readonly #folder: string;
  readonly #own: Issued;

  constructor(folder: string, name: string) {
    this.#folder = folder;
    this.#own = this.#makeOwn(name);
  }

  get file(): string {
    return this.#own.certFile;
  }

  get cert(): Buffer {
    return this.#own.cert;
  }

  /** A certificate for servers and clients. */
  issue(name: string, { from, until, names = 'IP:127.0.0.1', rsa = false }: IssueOptions = {}): Issued {
    const { certFile, keyFile } = this.#filesOf(name);
    const settings = this.#settings(names);
    const key = rsa ? ['-newkey', 'rsa:2048', '-nodes', '-keyout', keyFile] : newKey(keyFile);
    const request = ['-config', settings, '-subj', `/CN=${name}`, ...key];
    if (from === undefined && until === undefined) {
      const signer = ['-CA', this.#own.certFile, '-CAkey', this.#own.keyFile];
      openssl('req', ...request, '-x509', '-days', '1', ...signer, '-out', certFile);
      return issuedIn(certFile, keyFile);
    }
    const requestFile = join(this.#folder, `${name}.csr`);
    openssl('req', ...request, '-out', requestFile);
    const start = asn1Time(from ?? Date.now());
    const dates = ['-startdate', start, '-enddate', asn1Time(until ?? Date.now() + day)];
    const own = ['-config', settings, '-cert', this.#own.certFile, '-keyfile', this.#own.keyFile];
    openssl('ca', '-batch', '-notext', ...own, ...dates, '-in', requestFile, '-out', certFile);
    return issuedIn(certFile, keyFile);
  }

  /** A certificate revocation list with one certificate or none. @param seconds until its nextUpdate; a day unless given */
  revocationList(revoked?: Issued, { seconds = day / 1000 }: { readonly seconds?: number } = {}): string {
    const own = ['-config', this.#settings(''), '-cert', this.#own.certFile, '-keyfile', this.#own.keyFile];
    if (revoked !== undefined) openssl('ca', ...own, '-revoke', revoked.certFile);
    const file = join(this.#folder, 'list.crl');
    openssl('ca', ...own, '-gencrl', '-crlsec', String(seconds), '-out', file);
    return readFileSync(file, 'utf8');
  }

  #makeOwn(name: string): Issued {
    const { certFile, keyFile } = this.#filesOf(name);
    const asCa = ['-x509', '-days', '1', '-addext', 'basicConstraints=critical,CA:TRUE'];
    openssl('req', '-subj', `/CN=${name}`, ...newKey(keyFile), '-out', certFile, ...asCa);
    return issuedIn(certFile, keyFile);
  }

  /** `openssl ca` is the only command of OpenSSL 3.0 with both dates; it needs files for its records. */
  #settings(names: string): string {
    const records = join(this.#folder, 'index.txt');
    writeFileSync(records, '', { flag: 'a' });
    const file = join(this.#folder, 'ca.cnf');
    writeFileSync(
      file,
      `[req]
distinguished_name = names
x509_extensions = extensions
[ca]
default_ca = this
[this]
database = ${records}
new_certs_dir = ${this.#folder}
rand_serial = yes
unique_subject = no
default_md = sha256
policy = names
x509_extensions = extensions
[names]
commonName = supplied
[extensions]
subjectAltName = ${names}
`,
    );
    return file;
  }

  #filesOf(name: string): Pick<Issued, 'certFile' | 'keyFile'> {
    return { certFile: join(this.#folder, `${name}.crt`), keyFile: join(this.#folder, `${name}.key`) };
  }
}

function newKey(keyFile: string): readonly string[] {
  return ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', keyFile];
}

function issuedIn(certFile: string, keyFile: string): Issued {
  return { certFile, keyFile, cert: readFileSync(certFile), key: readFileSync(keyFile) };
}

function openssl(...args: readonly string[]): void {
  execFileSync('openssl', args, { stdio: 'pipe' });
}

/** In ASN.1's GeneralizedTime, whole seconds. */
function asn1Time(time: number): string {
  return `${new Date(time).toISOString().replace(/\D/g, '').slice(0, 14)}Z`;
}
