import type { z } from 'zod';
import type { Secret } from '../secret.ts';
import { type Path, pathText, type Report, repeated, reportUnknown } from './problem.ts';
import { type Config, configSchema, type OperationConfig, type OperationOverride } from './schema.ts';
import { canonicalUrl, isLoopback, isPlaintextRemote } from './url.ts';

/** What is invalid is `undefined`. */
type Partly<T> =
  | (T extends Secret | string | number | boolean ? T : { readonly [Key in keyof T]: Partly<T[Key]> })
  | undefined;

type Parts = NonNullable<Partly<Config>>;
type Credential = Config['callers'][number]['credentials'][number];

export type BuiltIn = Readonly<Record<string, OperationConfig>>;

/** The schema with the rules across fields. They also hold between the valid fields of an invalid configuration. */
export function schemaWithRules(builtIn: BuiltIn) {
  return configSchema.superRefine(
    (config, context) => {
      const report = reportTo(context);
      for (const issue of context.issues) drop(config, issue);
      checkPorts(config, report);
      checkEnvironments(config, report);
      checkOperations(config, builtIn, report);
      checkClaims(config, report);
      checkCallers(config, operationNames(config, builtIn), report);
    },
    { when: ({ value }) => isContainer(value) && !Array.isArray(value) },
  );
}

/** Rules of a schema. */
export function reportTo(context: z.core.$RefinementCtx): Report {
  return (path, message) => context.addIssue({ code: 'custom', path: [...path], message });
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** Makes what is invalid `undefined`, but not a mapping whose keys are. Then the data is of no other use. */
function drop(config: object, { code, path = [] }: Pick<z.core.$ZodRawIssue, 'code' | 'path'>): void {
  const last = path.at(-1);
  const get = (part: unknown, step: PropertyKey): unknown =>
    isContainer(part) ? Reflect.get(part, step) : undefined;
  const part = path.slice(0, -1).reduce<unknown>(get, config);
  const isAboutKeys =
    code === 'unrecognized_keys' || (code === 'custom' && isContainer(get(part, last ?? '')));
  if (last !== undefined && isContainer(part) && !isAboutKeys) Reflect.set(part, last, undefined);
}

/** Port 0 is a free one for each. */
function checkPorts({ proxy, admin }: Parts, report: Report): void {
  const port = proxy?.port ?? 0;
  if (port !== 0 && port === admin?.port)
    report(['admin', 'port'], 'is also the port of the proxy: use another one');
}

/** A claim has to outlive the request that made it. */
function checkClaims({ payments, environments = {} }: Parts, report: Report): void {
  const ttl = payments?.once?.ttl ?? Number.POSITIVE_INFINITY;
  const late = Object.entries(environments).find(([, one]) => (one?.timeouts?.request ?? 0) >= ttl);
  if (late === undefined) return;
  report(['payments', 'once', 'ttl'], `must be longer than timeouts.request of ${late[0]}: lengthen it`);
}

/**
 * Keeps environments apart: a request signed for one must not reach another. Signed requests must also be encrypted
 * in transit.
 */
function checkEnvironments({ environments, keys }: Parts, report: Report): void {
  const own = Object.entries(environments ?? {});
  const transit = keys?.source === 'vault' ? keys.vault?.transit : undefined;
  const mounts = Object.entries(transit?.mounts ?? {});
  const mountPath = (name: string) => ['keys', 'vault', 'transit', 'mounts', name];
  for (const [name] of mounts)
    reportUnknown(mountPath(name), name, Object.keys(environments ?? {}), 'environment', report);
  // With one mount, two could sign with the keys of each other, and no policy could keep them apart.
  for (const [[name], [owner]] of repeated(mounts, ([, mount]) => mount))
    report(
      mountPath(name),
      `must differ from the mount of ${owner}: each environment has a separate Transit engine`,
    );
  for (const [[name], [owner]] of repeated(own, ([, one]) => one?.baseUrl && canonicalUrl(one.baseUrl)))
    report(
      ['environments', name, 'baseUrl'],
      `is also the URL of "${owner}", so keys of one could sign for the other: use separate URLs`,
    );
  for (const [name, { baseUrl, allowInsecureHttp } = {}] of own)
    if (baseUrl !== undefined && isPlaintextRemote(baseUrl) && allowInsecureHttp === false)
      report(
        ['environments', name, 'baseUrl'],
        'must use https unless the host is loopback, or set allowInsecureHttp: true',
      );
}

/** One layer of operations: built in, of the configuration, or of an environment. */
interface Layer {
  readonly path: Path;
  readonly operations: NonNullable<Parts['operations']>;
}

type PartOfOperation = NonNullable<Partly<OperationOverride>>;

/** What the rules about operations need. */
type OperationParts = Pick<Parts, 'operations' | 'environments'> & Partial<Pick<Parts, 'payments'>>;

/** Names that a grant may use: built in, or added for all environments or for one. */
function operationNames(parts: OperationParts, builtIn: BuiltIn): string[] {
  return [...new Set(layersOf(parts, builtIn).flat().flatMap(namesIn))];
}

/** Rules for each operation over all its layers, of each environment and of what they share. */
export function checkOperations(parts: OperationParts, builtIn: BuiltIn, report: Report): void {
  for (const layers of layersOf(parts, builtIn)) {
    const names = [...new Set(layers.flatMap(namesIn))];
    const merged = names.map((name) => mergedOperation(name, layers));
    for (const { lowest, place, placeOf, fields } of merged) {
      const { path, loginFrom, readOnly = false, once = false } = fields;
      const missing = missingFields(lowest.fields);
      if (missing.length > 0)
        report(lowest.path, `is not a built-in operation, so it also requires ${missing.join(', ')}`);
      if (loginFrom === 'path' && path?.includes('{login}') === false)
        report(place, 'takes the login from the path, so its path must contain {login}');
      const problem = controlProblem(fields);
      if (problem !== undefined) report(place, problem);
      if (parts.payments?.once !== undefined && readOnly && once)
        report(
          placeOf(['readOnly', 'once']),
          'is readOnly, so it may be sent again, although with once it makes an order: set one of the two to false',
        );
    }
    const sameTemplate = repeated(merged, ({ fields }) => fields.path?.replaceAll(/\{\w+\}/g, '{}'));
    for (const [{ place }, { name }] of sameTemplate) report(place, `conflicts with the path of "${name}"`);
  }
}

/** A control is made of what the request has, and only SHA1-control makes one. */
function controlProblem(fields: PartOfOperation): string | undefined {
  const { signature, control = [], path } = fields;
  if (signature === undefined) return undefined;
  if ((signature === 'SHA1-control') !== Object.hasOwn(fields, 'control'))
    return 'requires both signature: SHA1-control and control, or neither';
  const missing = control.find((name) => name && /^\{\w+\}$/.test(name) && path?.includes(name) === false);
  return missing === undefined ? undefined : `has ${missing} in its control, which its path does not contain`;
}

/** The layers of each environment, lowest first, and those that all environments share. */
function layersOf({ operations = {}, environments = {} }: OperationParts, builtIn: BuiltIn): Layer[][] {
  const shared: Layer[] = [
    { path: [], operations: builtIn },
    { path: ['operations'], operations },
  ];
  const own = Object.entries(environments).map(([name, { operations = {} } = {}]) => ({
    path: ['environments', name, 'operations'],
    operations,
  }));
  return [shared, ...own.map((layer) => [...shared, layer])];
}

function namesIn({ operations }: Layer): string[] {
  return Object.keys(operations);
}

/** Without fields if it is invalid in one layer. The place of some fields is the topmost layer that sets one of them. */
function mergedOperation(name: string, layers: readonly Layer[]) {
  const own = layers
    .filter(({ operations }) => Object.hasOwn(operations, name))
    .map(({ path, operations }) => ({ path: [...path, name], fields: operations[name] }));
  const isValid = own.every(({ fields }) => fields !== undefined);
  const fields: PartOfOperation = isValid ? Object.assign({}, ...own.map(({ fields }) => fields)) : {};
  const placeOf = (checked: readonly (keyof PartOfOperation)[]): Path =>
    own.findLast((layer) => checked.some((field) => layer.fields?.[field] !== undefined))?.path ?? [name];
  const lowest = own[0] ?? { path: [name], fields: undefined };
  return { name, lowest, place: placeOf(['path', 'loginFrom', 'signature', 'control']), placeOf, fields };
}

/** An operation that no lower layer has is new, and inherits no fields. */
function missingFields(fields: PartOfOperation | undefined): string[] {
  const required = ['path', 'signature', 'loginFrom'];
  return fields === undefined ? [] : required.filter((field) => !Object.hasOwn(fields, field));
}

type JwtCredential = Extract<Credential, { jwt: unknown }>['jwt'];

/** Rules across callers, and with the listener, environments, operations and issuers that they reference. */
function checkCallers(parts: Parts, operations: readonly string[], report: Report): void {
  const { callers = [], environments = {}, proxy } = parts;
  const names = callers.map((caller, index) => ({ path: ['callers', index, 'name'], name: caller?.name }));
  for (const [{ path }, first] of repeated(names, ({ name }) => name))
    report(path, `duplicate caller name (${pathText(first.path)}): remove one of the two`);
  for (const [{ path }, first] of repeated(credentialsOf(callers), identityOf))
    report(path, `duplicate credential (${pathText(first.path)}): remove one of the two`);
  checkListener(callers, proxy, report);
  for (const [caller, { allow = [] } = {}] of callers.entries())
    for (const [index, grant] of allow.entries()) {
      const check = (list: 'environments' | 'operations', known: readonly string[], what: string) => {
        for (const [place, name] of (grant?.[list] ?? []).entries())
          if (name !== undefined && name !== '*')
            reportUnknown(['callers', caller, 'allow', index, list, place], name, known, what, report);
      };
      check('environments', Object.keys(environments), 'environment');
      check('operations', operations, 'operation');
    }
  checkJwts(parts, report);
}

/** Credentials that must not be accepted at this listener. */
function checkListener(callers: Callers, proxy: Parts['proxy'], report: Report): void {
  if (proxy === undefined) return;
  const { host = '127.0.0.1', tls, allowAnonymous, allowPlaintext } = proxy;
  const isPlain = !Object.hasOwn(proxy, 'tls');
  const hasClientCa = !isPlain && (tls === undefined || Object.hasOwn(tls, 'clientCaFile'));
  const credentials = credentialsOf(callers);
  // One for all credentials: the remedy is the same.
  const token = credentials.find(({ credential }) => 'tokenSha256' in credential || 'jwt' in credential);
  if (token !== undefined && isPlain && allowPlaintext === false && !isLoopback(host))
    report(
      token.path,
      'is a bearer token, which anyone on the network could read: set proxy.tls, set proxy.host to 127.0.0.1, or, if something else encrypts the connections, set proxy.allowPlaintext: true',
    );
  for (const { path, credential } of credentials) {
    if ('anonymous' in credential && !isLoopback(host) && allowAnonymous === false)
      report(path, 'allows anonymous access: set proxy.host to 127.0.0.1, or set proxy.allowAnonymous: true');
    const isCertificate = 'certificateUri' in credential || 'certificateDns' in credential;
    if (isCertificate && !hasClientCa)
      report(path, 'requires proxy.tls.clientCaFile to verify client certificates');
  }
}

/** Issuers of JWTs, and the credentials that refer to them. */
function checkJwts({ jwtIssuers = {}, callers = [] }: Parts, report: Report): void {
  // A token names its issuer by the claim `iss`, which must lead to one entry.
  for (const [[name], [before]] of repeated(Object.entries(jwtIssuers), ([, one]) => one?.issuer))
    report(['jwtIssuers', name, 'issuer'], `duplicate issuer (jwtIssuers.${before}): remove one of the two`);
  const placed = credentialsOf(callers).flatMap(({ path, caller, credential }) =>
    'jwt' in credential ? [{ path: [...path, 'jwt'], caller, jwt: credential.jwt }] : [],
  );
  for (const { path, jwt } of placed)
    reportUnknown([...path, 'issuer'], jwt.issuer, Object.keys(jwtIssuers), 'entry of jwtIssuers', report);
  // A token that matches the credentials of two callers is rejected, so they must not overlap.
  for (const [index, { path, caller, jwt }] of placed.entries()) {
    const other = placed.slice(0, index).find((one) => one.caller !== caller && overlap(one.jwt, jwt));
    if (other !== undefined)
      report(path, `can match the same token as ${pathText(other.path)}: make subject or claims differ`);
  }
}

type Callers = NonNullable<Parts['callers']>;

/** The valid ones. */
function credentialsOf(callers: Callers) {
  return callers.flatMap((caller, at) =>
    (caller?.credentials ?? []).flatMap((credential, index) => {
      const path: Path = ['callers', at, 'credentials', index];
      return isCredential(credential) ? [{ path, caller: at, credential }] : [];
    }),
  );
}

function isCredential(part: Partly<Credential>): part is Credential {
  const isWhole = (value: unknown): boolean =>
    isContainer(value) ? Object.values(value).every(isWhole) : value !== undefined;
  return isWhole(part);
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
