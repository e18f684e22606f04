/** The client certificate is on a list of the configuration. */
export class RevokedCertificate extends Error {
  override readonly name = 'RevokedCertificate';

  constructor() {
    super('the client certificate is revoked');
  }
}

/** SHA-256 fingerprints, in the form of OpenSSL (`AB:CD:...`) or as plain hex. */
export class FingerprintSet {
  readonly #known: ReadonlySet<string>;

  constructor(fingerprints: readonly string[]) {
    this.#known = new Set(fingerprints.map(hexOf));
  }

  has(fingerprint: string): boolean {
    return this.#known.has(hexOf(fingerprint));
  }
}

function hexOf(fingerprint: string): string {
  return fingerprint.replaceAll(':', '').toLowerCase();
}
