import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Issued {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** A throw-away CA in a folder, by the program `openssl`. */
export class Ca {
  readonly #folder: string;
  readonly #own: Issued;

  constructor(folder: string, name: string) {
    this.#folder = folder;
    this.#own = this.#make(name, ['-x509', '-days', '1', '-addext', 'basicConstraints=critical,CA:TRUE']);
  }

  get file(): string {
    return this.#own.certFile;
  }

  get cert(): Buffer {
    return this.#own.cert;
  }

  /** A certificate for 127.0.0.1, good for servers and clients. */
  issue(name: string): Issued {
    const { certFile: ca, keyFile: caKey } = this.#own;
    return this.#make(name, [
      '-CA',
      ca,
      '-CAkey',
      caKey,
      '-x509',
      '-days',
      '1',
      '-addext',
      'subjectAltName=IP:127.0.0.1',
    ]);
  }

  #make(name: string, options: readonly string[]): Issued {
    const [certFile, keyFile] = [join(this.#folder, `${name}.crt`), join(this.#folder, `${name}.key`)];
    const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', keyFile];
    execFileSync('openssl', ['req', '-subj', `/CN=${name}`, ...newKey, '-out', certFile, ...options], {
      stdio: 'pipe',
    });
    return { certFile, keyFile, cert: readFileSync(certFile), key: readFileSync(keyFile) };
  }
}
