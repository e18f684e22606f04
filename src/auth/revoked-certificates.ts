import type { RevokedCertificateConfig } from '../config/schema.ts';

/** The client certificate is on a list of the configuration. */
export class RevokedCertificate extends Error {
  override readonly name = 'RevokedCertificate';

  constructor() {
    super('the client certificate is revoked');
  }
}

/** A list of the configuration: certificates by their own SHA-256, or by that of their public key. */
export class RevocationList {
  readonly #digests: ReadonlySet<string>;

  constructor(entries: readonly RevokedCertificateConfig[]) {
    this.#digests = new Set(
      entries.map((entry) =>
        typeof entry === 'string' ? entry.replaceAll(':', '').toLowerCase() : entry.publicKeySha256,
      ),
    );
  }

  /** @param digests all that may name the certificate, in lowercase hex; computed only if there is anything to find */
  hasAny(digests: () => readonly string[]): boolean {
    return this.#digests.size > 0 && digests().some((digest) => this.#digests.has(digest));
  }
}
