import { z } from 'zod';
import { entriesOf } from '../util/text.ts';
import { type Path, pathText, type Report, repeated, reportUnknown } from './problem.ts';
import { caller, credential } from './schema/caller.ts';
import { environment } from './schema/environment.ts';
import { operationOverride } from './schema/operation.ts';
import { configSchema, type OperationConfig, type OperationOverride } from './schema.ts';
import { canonicalUrl, isLoopback, isPlaintextRemote, plainAddress } from './url.ts';

type Credential = z.output<typeof credential>;

/** `undefined` for what is invalid. */
const leniently = <T extends z.ZodType>(schema: T) => schema.optional().catch(undefined);
const fields = <T extends z.ZodRawShape>(shape: T) => z.preprocess(entriesOf, z.object(shape));
const byName = <T extends z.ZodType>(value: T) =>
  z
    .preprocess(entriesOf, z.record(z.string(), value))
    .transform((entries) => new Map(Object.entries(entries)));
const listOf = <T extends z.ZodType>(item: T) => z.array(item).catch([]);

const overrides = byName(leniently(operationOverride));
const texts = listOf(leniently(z.string()));

/**
 * The configuration in parts for the rules across fields, so that an invalid part does not hide problems in others.
 * `undefined` means that a part is present but invalid.
 */
const partsSchema = fields({
  proxy: leniently(configSchema.shape.proxy),
  admin: leniently(configSchema.shape.admin),
  environments: byName(
    fields({
      baseUrl: leniently(environment.shape.baseUrl),
      allowInsecureHttp: leniently(z.literal(true)),
      operations: overrides,
    }),
  ),
  operations: overrides,
  keys: fields({
    vault: fields({ transit: fields({ mounts: byName(z.unknown()) }) }),
  }),
  jwtIssuers: byName(fields({ issuer: leniently(z.string()) })),
  callers: listOf(
    fields({
      name: leniently(caller.shape.name),
      credentials: listOf(leniently(credential)),
      allow: listOf(fields({ environments: texts, operations: texts })),
    }),
  ),
});

type Parts = z.output<typeof partsSchema>;

export type BuiltIn = Readonly<Record<string, OperationConfig>>;

/** What is used in place of `proxy.port` and `admin.port`. */
export interface Ports {
  readonly proxy?: number | undefined;
  readonly admin?: number | undefined;
}

/** Rules across the fields of a configuration, which may be invalid. Never throws. */
export function checkRules(content: unknown, builtIn: BuiltIn, report: Report, ports: Ports = {}): void {
  const parts = partsSchema.parse(content);
  checkPorts(parts, ports, report);
  checkEnvironments(parts, report);
  checkOperations(parts, builtIn, report);
  checkCallers(parts, operationNames(parts, builtIn), report);
}

/** Only one of two listeners at the same address can start. Port 0 is a free one for each. */
function checkPorts({ proxy, admin }: Parts, ports: Ports, report: Report): void {
  if (proxy === undefined || admin === undefined) return;
  const port = ports.proxy ?? proxy.port;
  if (port === 0 || port !== (ports.admin ?? admin.port) || !shareAddress(proxy.host, admin.host)) return;
  report(['admin', 'port'], 'is also the port of the proxy, so Countersign could not start: use another one');
}

/** Whether listeners at these hosts have an address in common. `::` includes the addresses of IPv4. */
function shareAddress(one: string, other: string): boolean {
  const [a, b] = [plainAddress(one), plainAddress(other)];
  const isAny = (host: string) => host === '0.0.0.0' || host === '::';
  const isName = (host: string) => host === 'localhost';
  return a === b || isAny(a) || isAny(b) || (isLoopback(a) && isLoopback(b) && (isName(a) || isName(b)));
}

/**
 * Keeps environments apart: a request signed for one must not reach another. Signed requests must also be encrypted
 * in transit.
 */
function checkEnvironments({ environments, keys }: Parts, report: Report): void {
  const { mounts } = keys.vault.transit;
  const mountPath = (name: string) => ['keys', 'vault', 'transit', 'mounts', name];
  for (const name of mounts.keys())
    reportUnknown(mountPath(name), name, [...environments.keys()], 'environment', report);
  // With one mount, two could sign with the keys of each other, and no policy could keep them apart.
  for (const [[name], [owner]] of repeated(mounts, ([, mount]) => mount))
    report(
      mountPath(name),
      `must differ from the mount of ${owner}: each environment has a separate Transit engine`,
    );
  for (const [[name], [owner]] of repeated(
    environments,
    ([, { baseUrl }]) => baseUrl && canonicalUrl(baseUrl),
  ))
    report(
      ['environments', name, 'baseUrl'],
      `is also the URL of "${owner}", so keys of one could sign for the other: use separate URLs`,
    );
  for (const [name, { baseUrl, allowInsecureHttp }] of environments) {
    if (baseUrl !== undefined && isPlaintextRemote(baseUrl) && !allowInsecureHttp)
      report(
        ['environments', name, 'baseUrl'],
        'must use https unless the host is loopback, or set allowInsecureHttp: true',
      );
  }
}

/** One layer of operations: built in, of the configuration, or of an environment. */
interface Layer {
  readonly path: Path;
  readonly operations: Parts['operations'];
}

/** What the rules about operations need. */
type OperationParts = Pick<Parts, 'operations' | 'environments'>;

/** Names that a grant may use: built in, or added for all environments or for one. */
function operationNames(parts: OperationParts, builtIn: BuiltIn): string[] {
  return [...new Set(layersOf(parts, builtIn).flat().flatMap(namesIn))];
}

/** Rules for each operation over all its layers, of each environment and of what they share. */
export function checkOperations(parts: OperationParts, builtIn: BuiltIn, report: Report): void {
  for (const layers of layersOf(parts, builtIn)) {
    const names = [...new Set(layers.flatMap(namesIn))];
    const merged = names.map((name) => mergedOperation(name, layers));
    for (const { lowest, place, fields } of merged) {
      const { path, loginFrom } = fields;
      const missing = missingFields(lowest.fields);
      if (missing.length > 0)
        report(lowest.path, `is not a built-in operation, so it also requires ${missing.join(', ')}`);
      if (loginFrom === 'path' && path?.includes('{login}') === false)
        report(place, 'takes the login from the path, so its path must contain {login}');
      const problem = controlProblem(fields);
      if (problem !== undefined) report(place, problem);
    }
    const sameTemplate = repeated(merged, ({ fields }) => fields.path?.replaceAll(/\{\w+\}/g, '{}'));
    for (const [{ place }, { name }] of sameTemplate) report(place, `conflicts with the path of "${name}"`);
  }
}

/** A control is made of what the request has, and only SHA1-control makes one. */
function controlProblem({ signature, control, path }: OperationOverride): string | undefined {
  if (signature === undefined) return undefined;
  if ((signature === 'SHA1-control') !== (control !== undefined))
    return 'requires both signature: SHA1-control and control, or neither';
  const missing = control?.find((name) => /^\{\w+\}$/.test(name) && path?.includes(name) === false);
  return missing === undefined ? undefined : `has ${missing} in its control, which its path does not contain`;
}

/** The layers of each environment, lowest first, and those that all environments share. */
function layersOf({ operations, environments }: OperationParts, builtIn: BuiltIn): Layer[][] {
  const shared: Layer[] = [
    { path: [], operations: new Map(Object.entries(builtIn)) },
    { path: ['operations'], operations },
  ];
  const own = [...environments].map(([name, { operations }]) => ({
    path: ['environments', name, 'operations'],
    operations,
  }));
  return [shared, ...own.map((layer) => [...shared, layer])];
}

function namesIn({ operations }: Layer): string[] {
  return [...operations.keys()];
}

/** Without fields if it is invalid in one layer. Its place is the topmost layer that sets one of the checked fields. */
function mergedOperation(name: string, layers: readonly Layer[]) {
  const own = layers
    .filter(({ operations }) => operations.has(name))
    .map(({ path, operations }) => ({ path: [...path, name], fields: operations.get(name) }));
  const isValid = own.every(({ fields }) => fields !== undefined);
  const fields: OperationOverride = isValid ? Object.assign({}, ...own.map(({ fields }) => fields)) : {};
  const checked = ['path', 'loginFrom', 'signature', 'control'] as const;
  const top = own.findLast(({ fields }) => checked.some((field) => fields?.[field] !== undefined));
  const lowest = own[0] ?? { path: [name], fields: undefined };
  return { name, lowest, place: top?.path ?? [name], fields };
}

/** An operation that no lower layer has is new, and inherits no fields. */
function missingFields(fields: OperationOverride | undefined): string[] {
  const required = ['path', 'signature', 'loginFrom'] as const;
  return fields === undefined ? [] : required.filter((field) => fields[field] === undefined);
}

type JwtCredential = Extract<Credential, { jwt: unknown }>['jwt'];

/** Rules across callers, and with the listener, environments, operations and issuers that they reference. */
function checkCallers(parts: Parts, operations: readonly string[], report: Report): void {
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
  for (const [[name], [before]] of repeated(jwtIssuers, ([, { issuer }]) => issuer))
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
