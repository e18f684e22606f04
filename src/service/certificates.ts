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
  /** How many checks in a row found the files unusable. */
  readonly failedChecks: number;
  /** Why they are, since the second of these checks. */
  readonly problem?: string | undefined;
}

export type OnRenewed = (user: TlsUser, material: TlsMaterial) => void;

const none: TlsMaterial = {};
/** While files stay unusable: the second check is reported, then about one per hour. */
const checksBetweenReports = 60;

type PortRole = 'listener' | 'admin';

function tlsOf(
  { cert, key, ca, crl }: TlsMaterial,
  role: PortRole,
  { proxy, admin }: Config,
): ServerTls | undefined {
  const { tls } = role === 'listener' ? proxy : admin;
  if (cert === undefined || key === undefined || tls === undefined) return undefined;
  return {
    cert,
    key,
    minVersion: tls.minVersion,
    ...(ca === undefined ? {} : { clientCa: ca }),
    ...(crl === undefined ? {} : { clientCrl: crl }),
  };
}

/**
 * All certificate, key and CA files of a configuration. Replaced files take effect at the next check. If they are unusable,
 * as between writing a certificate and its key, the previous ones stay in use, and it is an error if the next check finds
 * them unusable too.
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
  tlsOf(role: PortRole, config: Config): ServerTls | undefined {
    return tlsOf(this.materialOf({ role }), role, config);
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

  /** Checks the files of one user at once, since TLS failed with them. Unusable ones are left to the next check. */
  async checkNow(user: TlsUser, renew: OnRenewed): Promise<void> {
    const before = this.#entries.get(nameOf(user));
    if (before === undefined) return;
    const read = await readInPlaceOf(before.material, before.files);
    if ('material' in read && !isDeepStrictEqual(read.material, before.material))
      this.#replace(before, entryOf(before, read.material), renew);
  }

  /** Checks all files. @param renew is called for each user whose files were replaced */
  async check(renew: OnRenewed): Promise<void> {
    for (const before of this.#entries.values()) {
      const after = await this.#checkEntry(before);
      if (after !== before) this.#replace(before, after, renew);
    }
  }

  #replace(before: Entry, after: Entry, renew: OnRenewed): void {
    const { user, material } = after;
    // Another check may have been faster.
    if (this.#entries.get(nameOf(user)) !== before) return;
    this.#entries.set(nameOf(user), after);
    if (material === before.material) return;
    renew(user, material);
    this.#log.message('info', 'certificate files reloaded', { ...user });
  }

  async #checkEntry(entry: Entry): Promise<Entry> {
    const { user, files, material } = entry;
    const read = await readInPlaceOf(material, files);
    if ('material' in read) {
      if (!isDeepStrictEqual(read.material, material)) return entryOf(entry, read.material);
      return entry.failedChecks === 0 ? entry : { ...entry, failedChecks: 0, problem: undefined };
    }
    const badLooks = entry.failedChecks + 1;
    const fault = faultsText(files, read.faults);
    if (badLooks % checksBetweenReports === 2) {
      const message = 'certificate files are unusable; keeping the previous ones';
      this.#log.message('error', message, { ...user, fault });
    }
    return { ...entry, failedChecks: badLooks, problem: badLooks < 2 ? undefined : fault };
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
  return { user, files, material, certificates, failedChecks: 0 };
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
