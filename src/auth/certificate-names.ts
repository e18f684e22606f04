import type { PresentedCredentials } from './authenticate.ts';

const separator = ', ';

/**
 * The URI and DNS names of a certificate's subject alternative name, in the text form of Node's
 * `X509Certificate`. A name with characters that could pretend to be a second name is quoted there; such a
 * name is passed over, and a text that is not understood as a whole has no names. Blanks that belong to a name
 * stay: a name is compared exactly as the certificate authority signed it.
 */
export function parseSubjectAltName(subjectAltName = ''): NonNullable<PresentedCredentials['certificate']> {
  const entries = subjectAltName.match(/(?<=^|, )(?:[^,"]|"(?:[^"\\]|\\.)*")+/g) ?? [];
  if (entries.join(separator) !== subjectAltName) return { uris: [], dnsNames: [] };
  const of = (kind: string): string[] =>
    entries
      .filter((entry) => entry.startsWith(`${kind}:`) && !entry.includes('"'))
      .map((entry) => entry.slice(kind.length + 1));
  return { uris: of('URI'), dnsNames: of('DNS') };
}
