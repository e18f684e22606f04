import type { Credential, Parts } from '../partial-parse.ts';
import { type Path, pathText, type Report, repeated, reportUnknown } from '../problem.ts';
import { isLoopback } from '../url.ts';

type JwtCredential = Extract<Credential, { jwt: unknown }>['jwt'];

/** Rules across callers, and with the listener, environments, operations and issuers that they reference. */
export function checkCallers(parts: Parts, operations: readonly string[], report: Report): void {
  const { callers, environments, proxy } = parts;
  const names = callers.map(({ name }, index) => ({ path: ['callers', index, 'name'], name }));
  for (const [{ path }, first] of repeated(names, ({ name }) => name))
    report(path, `duplicate caller name (${pathText(first.path)}): remove one of the two`);
  for (const [{ path }, first] of repeated(credentialsOf(parts.callers), identityOf))
    report(path, `duplicate credential (${pathText(first.path)}): remove one of the two`);
  checkListener(callers, proxy, report);
  for (const [caller, { allow }] of callers.entries()) {
    for (const [index, grant] of allow.entries()) {
      const check = (list: keyof typeof grant, known: readonly string[], what: string) => {
        for (const [place, name] of grant[list].entries())
          if (name !== undefined && name !== '*')
            reportUnknown(['callers', caller, 'allow', index, list, place], name, known, what, report);
      };
      check('environments', [...environments.keys()], 'environment');
      check('operations', operations, 'operation');
    }
  }
  checkJwts(parts, report);
}

/** Credentials that must not be accepted at this listener. */
export function checkListener(callers: Parts['callers'], proxy: Parts['proxy'], report: Report): void {
  if (proxy === undefined) return;
  const { host, tls, allowAnonymous, allowPlaintext } = proxy;
  const credentials = credentialsOf(callers);
  // One for all credentials: the remedy is the same.
  const token = credentials.find(({ credential }) => 'tokenSha256' in credential || 'jwt' in credential);
  if (token !== undefined && tls === undefined && !allowPlaintext && !isLoopback(host))
    report(
      token.path,
      'is a bearer token, which anyone on the network could read: set proxy.tls, set proxy.host to 127.0.0.1, or, if something else encrypts the connections, set proxy.allowPlaintext: true',
    );
  if (tls?.clientCrlFile !== undefined && tls.clientCaFile === undefined)
    report(['proxy', 'tls', 'clientCrlFile'], 'requires clientCaFile, whose CAs have signed the lists');
  for (const { path, credential } of credentials) {
    if ('anonymous' in credential && !isLoopback(host) && !allowAnonymous)
      report(path, 'allows anonymous access: set proxy.host to 127.0.0.1, or set proxy.allowAnonymous: true');
    const isCertificate = 'certificateUri' in credential || 'certificateDns' in credential;
    if (isCertificate && tls?.clientCaFile === undefined)
      report(path, 'requires proxy.tls.clientCaFile to verify client certificates');
  }
}

/** Issuers of JWTs, and the credentials that refer to them. */
function checkJwts({ jwtIssuers, callers }: Parts, report: Report): void {
  // A token names its issuer by the claim `iss`, which must lead to one entry.
  for (const [[name], [before]] of repeated(jwtIssuers, ([, issuer]) => issuer))
    report(['jwtIssuers', name, 'issuer'], `duplicate issuer (jwtIssuers.${before}): remove one of the two`);
  const placed = credentialsOf(callers).flatMap(({ path, caller, credential }) =>
    'jwt' in credential ? [{ path: [...path, 'jwt'], caller, jwt: credential.jwt }] : [],
  );
  for (const { path, jwt } of placed)
    reportUnknown([...path, 'issuer'], jwt.issuer, [...jwtIssuers.keys()], 'entry of jwtIssuers', report);
  // A token that matches the credentials of two callers is rejected, so they must not overlap.
  for (const [index, { path, caller, jwt }] of placed.entries()) {
    const other = placed.slice(0, index).find((one) => one.caller !== caller && overlap(one.jwt, jwt));
    if (other !== undefined)
      report(path, `can match the same token as ${pathText(other.path)}: make subject or claims differ`);
  }
}

/** The valid ones. */
function credentialsOf(callers: Parts['callers']) {
  return callers.flatMap(({ credentials }, caller) =>
    credentials.flatMap((credential, index) => {
      const path: Path = ['callers', caller, 'credentials', index];
      return credential === undefined ? [] : [{ path, caller, credential }];
    }),
  );
}

/** DNS names are case-insensitive (RFC 4343). */
function identityOf({ credential }: { credential: Credential }): string {
  return 'certificateDns' in credential
    ? `dns ${credential.certificateDns.toLowerCase()}`
    : JSON.stringify(credential);
}

/** A claim that is a list can match two different values; that shows only when such a token comes. */
function overlap(a: JwtCredential, b: JwtCredential): boolean {
  return (
    a.issuer === b.issuer &&
    patternsOverlap(a.subject, b.subject) &&
    Object.entries(a.claims).every(([name, pattern]) => patternsOverlap(pattern, b.claims[name]))
  );
}

function patternsOverlap(a = '*', b = '*'): boolean {
  const [prefixA, prefixB] = [a.replace(/\*$/, ''), b.replace(/\*$/, '')];
  if (a.endsWith('*') && prefixB.startsWith(prefixA)) return true;
  return b.endsWith('*') ? prefixA.startsWith(prefixB) : a === b;
}
