import { hash, type KeyObject, type X509Certificate } from 'node:crypto';
import type { RevokedCertificateConfig } from '../config/schema.ts';
import { derElements, derTags, encodeDer, encodeDerInteger } from '../util/der.ts';

export interface CertificateNames {
  readonly uris: readonly string[];
  readonly dnsNames: readonly string[];
}

const separator = ', ';

/** A verification with the largest takes 0.5 ms; with an exponent as long as its modulus it would take a hundred times that. */
const maxRsaBits = 8192;
const maxRsaExponent = 0xffff_ffffn;

/** Whether a verification with this public key, which a stranger may have chosen, takes too long. */
export function isCostlyKey({ asymmetricKeyDetails = {} }: KeyObject): boolean {
  const { modulusLength = 0, publicExponent = 0n } = asymmetricKeyDetails;
  return modulusLength > maxRsaBits || publicExponent > maxRsaExponent;
}

/**
 * The orders of the curves with which a CA may sign: P-224, P-256, P-384, P-521 (SP 800-186 section 3.2.1), secp256k1
 * (SEC 2 section 2.4.1), and those of Brainpool from 224 bits (RFC 5639 section 3).
 */
export const curveOrders: readonly bigint[] = [
  0xffffffffffffffffffffffffffff16a2e0b8f03e13dd29455c5c2a3dn,
  0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n,
  0xffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973n,
  0x1fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409n,
  0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n,
  0xd7c134aa264366862a18302575d0fb98d116bc4b6ddebca3a5a7939fn,
  0xa9fb57dba1eea9bc3e660a909d838d718c397aa3b561a6f7901e0e82974856a7n,
  0xd35e472036bc4fb7e13c785ed201e065f98fcfa5b68f12a32d482ec7ee8658e98691555b44c59311n,
  0x8cb91e82a3386d280f5d6f7e50e641df152f7109ed5456b31f166e6cac0425a7cf3ab6af6b7fc3103b883202e9046565n,
  0xaadd9db8dbe9c48b3fd4e6ae33c9fc07cb308db3b3c9d20ed6639cca70330870553e5c414ca92619418661197fac10471db1d381085ddaddb58796829ca90069n,
];

/** The start of all `ecdsa-with-*` (RFC 5758 section 3.2): 1.2.840.10045.4. */
const ecdsa = Buffer.from('2a8648ce3d04', 'hex');

/**
 * By what a list may name a certificate, each as SHA-256 in lowercase hex: its public key (SubjectPublicKeyInfo), the
 * certificate, and what the certificate would be with the other form of its signature. The holder of a certificate
 * signed by ECDSA can make that: with (r, s), (r, n - s) is valid too.
 */
export function certificateDigests(certificate: X509Certificate): string[] {
  const { raw, publicKey } = certificate;
  const forms = [publicKey.export({ type: 'spki', format: 'der' }), raw, ...otherForms(raw)];
  return forms.map((form) => hash('sha256', form));
}

/** A form for each curve, since which one the CA has is not known on a resumed session. */
function otherForms(certificate: Buffer): Buffer[] {
  const [tbs, algorithm, signature] = derElements(derElements(certificate)[0]?.content ?? certificate);
  if (tbs === undefined || signature === undefined) return [];
  if (!algorithm?.content.subarray(2).subarray(0, ecdsa.length).equals(ecdsa)) return [];
  const unusedBits = signature.content.subarray(0, 1);
  const [pair] = derElements(signature.content.subarray(1));
  const [r, s] = derElements(pair?.content ?? signature.content);
  if (r === undefined || s === undefined) return [];
  const value = BigInt(`0x${s.content.toString('hex')}`);
  return curveOrders
    .filter((order) => value < order)
    .map((order) => {
      const other = encodeDer(derTags.sequence, r.bytes, encodeDerInteger(order - value));
      const signed = encodeDer(derTags.bitString, unusedBits, other);
      return encodeDer(derTags.sequence, tbs.bytes, algorithm.bytes, signed);
    });
}

/**
 * Parses the URI and DNS names of a certificate's subject alternative name, in the text form of Node's
 * `X509Certificate`. Node quotes a name whose characters could imitate a second name: such a name is ignored. A text
 * that cannot be parsed as a whole has no names. Whitespace within a name stays, so that names are compared exactly
 * as the certificate authority signed them.
 */
export function parseSubjectAltName(subjectAltName = ''): CertificateNames {
  const entries = subjectAltName.match(/(?<=^|, )(?:[^,"]|"(?:[^"\\]|\\.)*")+/g) ?? [];
  if (entries.join(separator) !== subjectAltName) return { uris: [], dnsNames: [] };
  const namesOf = (kind: string): string[] =>
    entries
      .filter((entry) => entry.startsWith(`${kind}:`) && !entry.includes('"'))
      .map((entry) => entry.slice(kind.length + 1));
  return { uris: namesOf('URI'), dnsNames: namesOf('DNS') };
}

/** The client certificate is on a list of the configuration. */
export class RevokedCertificate extends Error {
  override readonly name = 'RevokedCertificate';
  override readonly message = 'the client certificate is revoked';
}

/**
 * Whether a certificate is on a list of the configuration, by its own SHA-256 or by that of its public key. The returned
 * function gets all that may name it, in lowercase hex; that is computed only if there is anything to find.
 */
export function revocationList(entries: readonly RevokedCertificateConfig[]) {
  const listed = new Set(
    entries.map((entry) =>
      typeof entry === 'string' ? entry.replaceAll(':', '').toLowerCase() : entry.publicKeySha256,
    ),
  );
  return (digests: () => readonly string[]): boolean =>
    listed.size > 0 && digests().some((digest) => listed.has(digest));
}
