import { didYouMean } from '../did-you-mean.ts';
import type { Credential, Parts } from '../partial-parse.ts';
import { type Finding, type Path, pathText } from '../problem.ts';

type JwtCredential = Extract<Credential, { jwt: unknown }>['jwt'];

/** A JWT credential, with its place and its caller's. */
interface Placed {
  readonly path: Path;
  readonly caller: number;
  readonly jwt: JwtCredential;
}

/** Rules for issuers of JWTs, and for the credentials that refer to them. */
export function jwtFindings({ jwtIssuers, callers }: Parts): Finding[] {
  const known = new Set(jwtIssuers.keys());
  const credentials = callers.flatMap(({ credentials }, caller) =>
    credentials.flatMap((credential, index): Placed[] =>
      credential !== undefined && 'jwt' in credential
        ? [{ path: ['callers', caller, 'credentials', index, 'jwt'], caller, jwt: credential.jwt }]
        : [],
    ),
  );
  return [
    ...sharedIssuers(jwtIssuers),
    ...credentials
      .filter(({ jwt }) => !known.has(jwt.issuer))
      .map(({ path, jwt }) => ({
        path: [...path, 'issuer'],
        message: `unknown entry of jwtIssuers${didYouMean(jwt.issuer, known)}`,
      })),
    ...credentials.flatMap((credential, index) => overlapFindings(credential, credentials.slice(0, index))),
  ];
}

/** A token names its issuer by the claim `iss`, which must lead to one entry. */
function sharedIssuers(jwtIssuers: Parts['jwtIssuers']): Finding[] {
  const first = new Map<unknown, string>();
  return [...jwtIssuers].flatMap(([name, issuer]) => {
    const before = first.get(issuer);
    first.set(issuer, before ?? name);
    if (before === undefined || typeof issuer !== 'string') return [];
    const path = ['jwtIssuers', name, 'issuer'];
    return [{ path, message: `duplicate issuer (jwtIssuers.${before}): remove one of the two` }];
  });
}

/** A token that matches the credentials of two callers is rejected, so they must not overlap. */
function overlapFindings({ path, caller, jwt }: Placed, earlier: readonly Placed[]): Finding[] {
  const other = earlier.find((one) => one.caller !== caller && overlap(one.jwt, jwt));
  if (other === undefined) return [];
  const place = pathText(other.path);
  return [{ path, message: `can match the same token as ${place}: make subject or claims differ` }];
}

/** A claim that is a list can match two different values; that shows only when such a token comes. */
function overlap(a: JwtCredential, b: JwtCredential): boolean {
  return (
    a.issuer === b.issuer &&
    patternsOverlap(a.subject, b.subject) &&
    Object.entries(a.claims).every(([name, pattern]) => patternsOverlap(pattern, b.claims[name]))
  );
}

function patternsOverlap(a: string | undefined, b: string | undefined): boolean {
  if (a === undefined || b === undefined) return true;
  const [prefixA, prefixB] = [a.replace(/\*$/, ''), b.replace(/\*$/, '')];
  if (a.endsWith('*') && b.endsWith('*')) return prefixA.startsWith(prefixB) || prefixB.startsWith(prefixA);
  if (a.endsWith('*')) return b.startsWith(prefixA);
  return b.endsWith('*') ? a.startsWith(prefixB) : a === b;
}
