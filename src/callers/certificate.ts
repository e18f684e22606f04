import type { Presented } from './authenticate.ts';

/**
 * The URI and DNS names of a certificate's subject alternative name, in the text form of Node's
 * `X509Certificate`. A name with characters that could pretend to be a second name is quoted there; such a
 * name is passed over, and a text that is not understood as a whole has no names.
 */
export function namesIn(subjectAltName = ''): NonNullable<Presented['certificate']> {
  const parts = subjectAltName.match(/(?:[^,"]|"(?:[^"\\]|\\.)*")+/g) ?? [];
  const entries = parts.join(',') === subjectAltName ? parts.map((part) => part.trim()) : [];
  const of = (kind: string): string[] =>
    entries
      .filter((entry) => entry.startsWith(`${kind}:`) && !entry.includes('"'))
      .map((entry) => entry.slice(kind.length + 1));
  return { uris: of('URI'), dnsNames: of('DNS') };
}
