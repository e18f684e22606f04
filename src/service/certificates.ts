import { isDeepStrictEqual } from 'node:util';
import { tlsFilesOf } from '../config/named-files.ts';
import type { Config } from '../config/schema.ts';
import { readTlsFiles, type TlsFiles, type TlsUser } from '../net/tls-files.ts';
import {
  datedParts,
  outdatedLists,
  type TlsFault,
  type TlsMaterial,
  validityOf,
} from '../net/tls-material.ts';
import type { Logger } from '../observability/logger.ts';
import type { CertificateInUse } from '../observability/prometheus.ts';
import type { ServerTls } from '../proxy/inbound/server-tls.ts';
import { SingleFlight } from '../util/promises.ts';

interface Entry {
  readonly user: TlsUser;
  readonly files: TlsFiles;
  readonly material: TlsMaterial;
  readonly certificates: readonly CertificateInUse[];
  /** Why the last check found the files unusable. */
  readonly fault?: string;
  /** The same, if the check before it did too. */
  readonly problem?: string | undefined;
}

type OnRenewed = (user: TlsUser, material: TlsMaterial) => void;

const none: TlsMaterial = {};

/**
 * The TLS files of the ports, Vault and the gateways. Replaced files take effect at the next check. If they are unusable, as
 * between writing a certificate and its key, the previous ones stay in use, and it is an error if the next check finds them
 * unusable too.
 */
export class CertificateFiles {
  readonly #log: Pick<Logger, 'message'>;
  readonly #entries = new Map<string, Entry>();
  #stop = (): void => {};

  private constructor(log: Pick<Logger, 'message'>) {
    this.#log = log;
  }

  /**
   * Reads the files that a configuration names.
   *
   * @param previous those in use
   * @throws Error for unusable files, also for an older revocation list than the one in use, unless they are in use
   *   already and were replaced
   */
  static async read(
    config: Config,
    log: Pick<Logger, 'message'>,
    previous?: CertificateFiles,
  ): Promise<CertificateFiles> {
    const read = new CertificateFiles(log);
    const inUse = previous === undefined ? new Map<string, Entry>() : previous.#entries;
    for (const { user, files } of tlsFilesOf(config)) {
      const known = inUse.get(nameOf(user));
      const isKnown = known !== undefined && isDeepStrictEqual(known.files, files);
      const entry = isKnown ? await read.#checkEntry(known) : await readNew(user, files, known?.material);
      read.#entries.set(nameOf(user), entry);
    }
    return read;
  }

  materialOf(user: TlsUser): TlsMaterial {
    return this.#entries.get(nameOf(user))?.material ?? none;
  }

  /** What a port needs for TLS; `undefined` without it. */
  tlsOf(role: 'listener' | 'admin', { proxy, admin }: Config): ServerTls | undefined {
    const { tls } = role === 'listener' ? proxy : admin;
    const { cert, key, ca, crl } = this.materialOf({ role });
    if (cert === undefined || key === undefined || tls === undefined) return undefined;
    return { cert, key, minVersion: tls.minVersion, clientCa: ca, clientCrl: crl };
  }

  /** Those that have a validity, for metrics and status. */
  inUse(): readonly CertificateInUse[] {
    return [...this.#entries.values()].flatMap(({ certificates, problem }) =>
      certificates.map((one) => ({ ...one, problem })),
    );
  }

  /** Checks all files at an interval of the given number of milliseconds. */
  checkEvery(interval: number, renew: OnRenewed): void {
    const checks = new SingleFlight<void>();
    const timer = setInterval(() => void checks.run(() => this.check(renew)), interval).unref();
    this.#stop = () => clearInterval(timer);
  }

  /** Ends the checks, also one in flight: nothing is renewed any more. */
  stop(): void {
    this.#stop();
    this.#entries.clear();
  }

  /** Checks all files. @param renew is called for each user whose files were replaced */
  async check(renew: OnRenewed): Promise<void> {
    for (const [name, before] of this.#entries) {
      const after = await this.#checkEntry(before);
      if (!this.#entries.has(name)) return;
      this.#entries.set(name, after);
      const { user, material } = after;
      if (isDeepStrictEqual(material, before.material)) continue;
      renew(user, material);
      this.#log.message('info', 'certificate files reloaded', { ...user });
    }
  }

  async #checkEntry(entry: Entry): Promise<Entry> {
    const { user, files, material } = entry;
    const read = await readInPlaceOf(material, files);
    if ('material' in read) return entryOf(entry, read.material);
    const fault = faultsText(files, read.faults);
    const problem = entry.fault === undefined ? undefined : fault;
    if (problem !== undefined && entry.problem === undefined) {
      const message = 'certificate files are unusable; keeping the previous ones';
      this.#log.message('error', message, { ...user, fault });
    }
    return { ...entry, fault, problem };
  }
}

/** The material of files, unless it may not take the place of that in use. */
async function readInPlaceOf(
  material: TlsMaterial,
  files: TlsFiles,
): Promise<Awaited<ReturnType<typeof readTlsFiles>>> {
  const read = await readTlsFiles(files);
  const faults = 'material' in read ? outdatedLists(material, read.material) : [];
  return faults.length === 0 ? read : { faults };
}

async function readNew(user: TlsUser, files: TlsFiles, inUse: TlsMaterial = none): Promise<Entry> {
  const read = await readInPlaceOf(inUse, files);
  if ('faults' in read) throw new Error(faultsText(files, read.faults));
  return entryOf({ user, files }, read.material);
}

function entryOf({ user, files }: Pick<Entry, 'user' | 'files'>, material: TlsMaterial): Entry {
  const { role, environment } = user;
  const certificates = datedParts.flatMap((part) => {
    const validity = validityOf(material, part);
    return validity === undefined ? [] : [{ name: labelOf(role, part), environment, ...validity }];
  });
  return { user, files, material, certificates };
}

const labels: Readonly<Record<TlsUser['role'], Record<'cert' | 'ca', string>>> = {
  listener: { cert: 'listener', ca: 'listener-client-ca' },
  admin: { cert: 'admin', ca: 'admin-client-ca' },
  vault: { cert: 'vault-client', ca: 'vault-ca' },
  gateway: { cert: 'gateway-client', ca: 'gateway-ca' },
};

function labelOf(role: TlsUser['role'], part: (typeof datedParts)[number]): string {
  if (part === 'proxyCa') return `${role}-proxy-ca`;
  return part === 'crl' ? `${role}-client-crl` : labels[role][part];
}

function faultsText(files: TlsFiles, faults: readonly TlsFault[]): string {
  return faults.map(({ part, message }) => `${files[part] ?? part} ${message}`).join('; ');
}

function nameOf({ role, environment = '' }: TlsUser): string {
  return `${role} ${environment}`;
}
