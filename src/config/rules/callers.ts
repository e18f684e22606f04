import { didYouMean } from '../did-you-mean.ts';
import type { Credential, Parts } from '../partial-parse.ts';
import { type Finding, type Path, pathText } from '../problem.ts';
import { isLoopback } from '../url.ts';

interface Located<T> {
  readonly path: Path;
  readonly value: T;
}

/** Callers among themselves, and with the listener, environments and operations they need. */
export function callerFindings(parts: Parts, operations: ReadonlySet<string>): Finding[] {
  const callers = located(['callers'], parts.callers);
  const names = callers.flatMap(({ path, value: { name } }) =>
    name === undefined ? [] : [{ path: [...path, 'name'], value: name }],
  );
  const credentials = callers.flatMap(({ path, value }) =>
    located([...path, 'credentials'], value.credentials),
  );
  const grants = callers.flatMap(({ path, value }) => located([...path, 'allow'], value.allow));
  const environments = new Set(parts.environments.keys());
  return [
    ...repeated(names, (name) => name, 'is the name of another caller too'),
    ...repeated(credentials, identity, 'is a credential that stands here already'),
    ...credentials.flatMap((credential) => listenerFindings(credential, parts.proxy)),
    ...grants.flatMap(({ path, value }) => [
      ...unknownNames([...path, 'environments'], value.environments, environments, 'environment'),
      ...unknownNames([...path, 'operations'], value.operations, operations, 'operation'),
    ]),
  ];
}

/** The parts of a list that are right in themselves, each with its place. */
function located<T>(path: Path, values: readonly (T | undefined)[]): Located<T>[] {
  return values.flatMap((value, index) => (value === undefined ? [] : [{ path: [...path, index], value }]));
}

/** The second and every further place that has what another has. */
function repeated<T>(places: readonly Located<T>[], key: (value: T) => string, what: string): Finding[] {
  const first = new Map<string, Path>();
  return places.flatMap(({ path, value }) => {
    const before = first.get(key(value));
    first.set(key(value), before ?? path);
    return before === undefined
      ? []
      : [{ path, message: `${what} (${pathText(before)}): remove one of the two` }];
  });
}

/** DNS names are the same in either case (RFC 4343). */
function identity(credential: Credential): string {
  return 'certificateDns' in credential
    ? `dns ${credential.certificateDns.toLowerCase()}`
    : JSON.stringify(credential);
}

function listenerFindings({ path, value }: Located<Credential>, proxy: Parts['proxy']): Finding[] {
  if (proxy === undefined) return [];
  if ('anonymous' in value && !isLoopback(proxy.host) && !proxy.allowAnonymous) {
    return [
      { path, message: 'lets everybody in: let proxy.host be 127.0.0.1, or set proxy.allowAnonymous: true' },
    ];
  }
  const certificate = 'certificateUri' in value || 'certificateDns' in value;
  if (certificate && proxy.tls?.clientCaFile === undefined) {
    return [{ path, message: 'needs proxy.tls.clientCaFile, by which client certificates are verified' }];
  }
  return [];
}

function unknownNames(
  path: Path,
  names: readonly (string | undefined)[],
  known: ReadonlySet<string>,
  what: string,
): Finding[] {
  return located(path, names)
    .filter(({ value }) => value !== '*' && !known.has(value))
    .map(({ path, value }) => ({ path, message: `names no ${what}${didYouMean(value, known)}` }));
}
