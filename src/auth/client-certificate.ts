export interface CertificateNames {
  readonly uris: readonly string[];
  readonly dnsNames: readonly string[];
}

const separator = ', ';

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
