import type { Presented } from './authenticate.ts';

/**
 * The URI and DNS names of a certificate's subject alternative name, in the text form of Node's
 * `X509Certificate`. A name with characters that could pretend to be a second name is quoted there; such a
 * name is passed over.
 */
export function namesIn(subjectAltName: string | undefined): NonNullable<Presented['certificate']> {
  const entries = (subjectAltName ?? '').match(/(?:[^,"]|"(?:[^"\\]|\\.)*")+/g) ?? [];
  const of = (kind: string): string[] =>
    entries
      .map((entry) => entry.trim())
      .filter((entry) => entry.startsWith(`${kind}:`) && !entry.includes('"'))
      .map((entry) => entry.slice(kind.length + 1));
  return { uris: of('URI'), dnsNames: of('DNS') };
}
