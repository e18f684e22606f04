import type { Credential, Parts } from '../partial-parse.ts';
import { didYouMean, type Finding, type Path, pathText } from '../problem.ts';
import { isLoopback } from '../url.ts';

interface Located<T> {
  readonly path: Path;
  readonly value: T;
}

/** Rules across callers, and with the listener, environments and operations that they reference. */
export function callerFindings(parts: Parts, operations: ReadonlySet<string>): Finding[] {
  const callers = located(['callers'], parts.callers);
  const names = callers.flatMap(({ path, value: { name } }) =>
    name === undefined ? [] : [{ path: [...path, 'name'], value: name }],
  );
  const credentials = credentialsOf(parts.callers);
  const grants = callers.flatMap(({ path, value }) => located([...path, 'allow'], value.allow));
  const environments = new Set(parts.environments.keys());
  return [
    ...duplicates(names, (name) => name, 'duplicate caller name'),
    ...duplicates(credentials, identity, 'duplicate credential'),
    ...credentialFindings(parts.callers, parts.proxy),
    ...grants.flatMap(({ path, value }) => [
      ...unknownNames([...path, 'environments'], value.environments, environments, 'environment'),
      ...unknownNames([...path, 'operations'], value.operations, operations, 'operation'),
    ]),
  ];
}

/** Credentials that must not be accepted at this listener. */
export function credentialFindings(callers: Parts['callers'], proxy: Parts['proxy']): Finding[] {
  const credentials = credentialsOf(callers);
  return [
    ...plaintextFindings(credentials, proxy),
    ...revocationFindings(proxy),
    ...credentials.flatMap((credential) => listenerFindings(credential, proxy)),
  ];
}

function credentialsOf(callers: Parts['callers']): Located<Credential>[] {
  return located(['callers'], callers).flatMap(({ path, value }) =>
    located([...path, 'credentials'], value.credentials),
  );
}

/** The valid parts of a list, each with its path. */
function located<T>(path: Path, values: readonly (T | undefined)[]): Located<T>[] {
  return values.flatMap((value, index) => (value === undefined ? [] : [{ path: [...path, index], value }]));
}

/** Every value after the first with the same key. */
function duplicates<T>(values: readonly Located<T>[], key: (value: T) => string, problem: string): Finding[] {
  const first = new Map<string, Path>();
  return values.flatMap(({ path, value }) => {
    const before = first.get(key(value));
    first.set(key(value), before ?? path);
    return before === undefined
      ? []
      : [{ path, message: `${problem} (${pathText(before)}): remove one of the two` }];
  });
}

/** DNS names are case-insensitive (RFC 4343). */
function identity(credential: Credential): string {
  return 'certificateDns' in credential
    ? `dns ${credential.certificateDns.toLowerCase()}`
    : JSON.stringify(credential);
}

function listenerFindings({ path, value }: Located<Credential>, proxy: Parts['proxy']): Finding[] {
  if (proxy === undefined) return [];
  if ('anonymous' in value && !isLoopback(proxy.host) && !proxy.allowAnonymous) {
    return [
      {
        path,
        message: 'allows anonymous access: set proxy.host to 127.0.0.1, or set proxy.allowAnonymous: true',
      },
    ];
  }
  const certificate = 'certificateUri' in value || 'certificateDns' in value;
  if (certificate && proxy.tls?.clientCaFile === undefined) {
    return [{ path, message: 'requires proxy.tls.clientCaFile to verify client certificates' }];
  }
  return [];
}

function revocationFindings(proxy: Parts['proxy']): Finding[] {
  if (proxy?.tls?.clientCrlFile === undefined || proxy.tls.clientCaFile !== undefined) return [];
  return [
    {
      path: ['proxy', 'tls', 'clientCrlFile'],
      message: 'requires clientCaFile, whose CAs have signed the lists',
    },
  ];
}

/** One for all credentials: the remedy is the same. */
function plaintextFindings(credentials: readonly Located<Credential>[], proxy: Parts['proxy']): Finding[] {
  if (proxy === undefined || proxy.tls !== undefined || proxy.allowPlaintext || isLoopback(proxy.host))
    return [];
  const token = credentials.find(({ value }) => 'tokenSha256' in value || 'jwt' in value);
  if (token === undefined) return [];
  const message =
    'is a bearer token, which anyone on the network could read: set proxy.tls, set proxy.host to 127.0.0.1, or, if something else encrypts the connections, set proxy.allowPlaintext: true';
  return [{ path: token.path, message }];
}

function unknownNames(
  path: Path,
  names: readonly (string | undefined)[],
  known: ReadonlySet<string>,
  what: string,
): Finding[] {
  return located(path, names)
    .filter(({ value }) => value !== '*' && !known.has(value))
    .map(({ path, value }) => ({ path, message: `unknown ${what}${didYouMean(value, known)}` }));
}
