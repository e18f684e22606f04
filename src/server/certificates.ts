import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../config/schema.ts';
import { tlsFilesOf } from '../config/tls-files.ts';
import type { Logger } from '../observability/logger.ts';
import type { MetricsObserver } from '../observability/metrics-observer.ts';
import { readTlsFiles, type TlsFiles, type TlsUser } from '../tls/files.ts';
import { type TlsFault, type TlsMaterial, validityOf } from '../tls/material.ts';

export interface CertificateOptions {
  readonly log: Pick<Logger, 'message'>;
  readonly metrics: Pick<MetricsObserver, 'certificateLoaded' | 'certificateRemoved'>;
}

interface Entry {
  readonly user: TlsUser;
  readonly files: TlsFiles;
  readonly material: TlsMaterial;
  /** For how many looks in a row the files could not be used. */
  readonly badLooks: number;
}

type Renew = (user: TlsUser, material: TlsMaterial) => void;

/** The certificates of one configuration, read and found to be usable. */
export type Certificates = ReadonlyMap<string, Entry>;

const none: TlsMaterial = {};
/** While files stay bad: at the second look, and then about each hour. */
const looksBetweenReports = 60;

export function materialOf(certificates: Certificates, user: TlsUser): TlsMaterial {
  return certificates.get(nameOf(user))?.material ?? none;
}

/**
 * All certificate, key and CA files in use. Files that were replaced are used from the next look on; files that
 * cannot be used, as when a certificate and its key are written one after the other, leave the ones
 * before in use, and are an error when the next look finds them so again.
 */
export class CertificateFiles {
  readonly #ports: CertificateOptions;
  #entries = new Map<string, Entry>();

  constructor(ports: CertificateOptions) {
    this.#ports = ports;
  }

  /**
   * Reads the files that a configuration names, and changes nothing yet.
   *
   * @throws Error for files that cannot be used, unless they are in use already and were replaced
   */
  async prepare(config: Config): Promise<Certificates> {
    const prepared = new Map<string, Entry>();
    for (const { user, files } of tlsFilesOf(config)) {
      const known = this.#entries.get(nameOf(user));
      const isKnown = known !== undefined && isDeepStrictEqual(known.files, files);
      const entry = isKnown ? await this.#lookAt(known) : await readNew(user, files);
      prepared.set(nameOf(user), entry);
    }
    return prepared;
  }

  /** Takes over what was prepared, and shows when it runs out. */
  use(certificates: Certificates): void {
    for (const { user } of this.#entries.values()) this.#ports.metrics.certificateRemoved(user);
    this.#entries = new Map(certificates);
    for (const { user, material } of certificates.values()) this.#show(user, material);
  }

  /** Looks at all files at regular intervals, until the function given back is called. @param every milliseconds */
  lookEach(every: number, renew: Renew): () => void {
    let looking = false;
    const timer = setInterval(() => {
      if (looking) return;
      looking = true;
      void this.look(renew).finally(() => {
        looking = false;
      });
    }, every).unref();
    return () => clearInterval(timer);
  }

  /** Looks at all files again. @param renew gets each user whose files were replaced */
  async look(renew: Renew): Promise<void> {
    for (const [name, before] of this.#entries) {
      const after = await this.#lookAt(before);
      // Another configuration may have been taken meanwhile.
      if (after === before || this.#entries.get(name) !== before) continue;
      this.#entries.set(name, after);
      if (after.material === before.material) continue;
      renew(after.user, after.material);
      this.#show(after.user, after.material);
      this.#ports.log.message('info', 'certificate files were replaced and are in use', { ...after.user });
    }
  }

  async #lookAt(entry: Entry): Promise<Entry> {
    const { user, files, material } = entry;
    const read = await readTlsFiles(files);
    if ('material' in read) {
      const unchanged = isDeepStrictEqual(read.material, material);
      if (unchanged && entry.badLooks === 0) return entry;
      return { user, files, material: unchanged ? material : read.material, badLooks: 0 };
    }
    const badLooks = entry.badLooks + 1;
    if (badLooks % looksBetweenReports === 2) {
      const fault = faultsText(files, read.faults);
      const message = 'certificate files cannot be used: the ones before stay in use';
      this.#ports.log.message('error', message, { ...user, fault });
    }
    return { ...entry, badLooks };
  }

  #show(user: TlsUser, material: TlsMaterial): void {
    for (const part of ['cert', 'ca'] as const) {
      const validity = validityOf(material, part);
      if (validity !== undefined) this.#ports.metrics.certificateLoaded({ ...user, part }, validity);
    }
  }
}

async function readNew(user: TlsUser, files: TlsFiles): Promise<Entry> {
  const read = await readTlsFiles(files);
  if ('faults' in read) throw new Error(faultsText(files, read.faults));
  return { user, files, material: read.material, badLooks: 0 };
}

function faultsText(files: TlsFiles, faults: readonly TlsFault[]): string {
  return faults.map(({ part, message }) => `${files[part] ?? part} ${message}`).join('; ');
}

function nameOf({ role, environment = '' }: TlsUser): string {
  return `${role} ${environment}`;
}
