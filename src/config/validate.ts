import { configJsonSchema } from './json-schema.ts';
import { type Credential, type Parts, parsePartially } from './partial-parse.ts';
import { didYouMean, type Finding, inOrder, located, type Path, type Problem, pathText } from './problem.ts';
import { callerFindings } from './rules/callers.ts';
import { type BuiltIn, operationFindings, operationNames } from './rules/operations.ts';
import { type CallerConfig, type Config, configSchema } from './schema.ts';
import { canonicalUrl, isPlaintextRemote } from './url.ts';
import { type EnvLookup, readDocument } from './yaml/parse.ts';
import { errorMap, schemaFindings } from './zod-messages.ts';

type JwtCredential = Extract<Credential, { jwt: unknown }>['jwt'];

/** A JWT credential, with its place and its caller's. */
interface Placed {
  readonly path: Path;
  readonly caller: number;
  readonly jwt: JwtCredential;
}

interface ValidateOptions {
  readonly lookUp: EnvLookup;
  readonly builtIn: BuiltIn;
}

type ValidationResult =
  | {
      readonly config: Config;
      /** The line of a path in the file, from 1. */
      readonly lineOf: (path: Path) => number;
      /** What is valid, and may yet surprise. */
      readonly notices: readonly Problem[];
    }
  | { readonly problems: readonly Problem[] };

/**
 * Parses the text of a configuration file into a {@link Config}, or reports all problems in the order of their lines.
 * Never throws and does no I/O. No message contains a value of the file.
 */
export function validateConfig(text: string, { lookUp, builtIn }: ValidateOptions): ValidationResult {
  const { content, problems: yamlProblems, lineOf } = readDocument(text, lookUp);
  if (content === undefined) return { problems: inOrder(yamlProblems) };
  const parsed = configSchema.safeParse(content.value, { error: errorMap, reportInput: true });
  const findings = [
    ...(parsed.success ? [] : schemaFindings(parsed.error.issues, configJsonSchema)),
    ...crossFieldFindings(content.value, builtIn),
  ];
  const problems = located(findings, lineOf);
  // An unset variable explains every other problem with its value.
  const unset = new Set(yamlProblems.map(({ path }) => path).filter((path) => path !== ''));
  const all = inOrder([...yamlProblems, ...problems.filter(({ path }) => !unset.has(path))]);
  if (!parsed.success || all.length > 0) return { problems: all };
  const notices = inOrder(located(noticeFindings(parsed.data, builtIn), lineOf));
  return { config: parsed.data, lineOf, notices };
}

/** Rules across fields. Invalid parts do not hide problems in others. */
function crossFieldFindings(value: unknown, builtIn: BuiltIn): Finding[] {
  const parts = parsePartially(value);
  return [
    ...environmentFindings(parts),
    ...operationFindings(parts, builtIn),
    ...callerFindings(parts, operationNames(parts, builtIn)),
    ...jwtFindings(parts),
  ];
}

/**
 * Keeps environments apart: a request signed for one must not reach another. Signed requests must also be encrypted
 * in transit.
 */
function environmentFindings({ environments, canary, transitMounts }: Parts): Finding[] {
  return [
    ...transitFindings(transitMounts, environments),
    ...sharedAddresses(environments),
    ...plainAddresses(environments),
    ...(canary ? missingEndpoints(environments) : []),
  ];
}

/** Two environments with one mount could sign with the keys of each other, and no policy could keep them apart. */
function transitFindings(mounts: Parts['transitMounts'], environments: Parts['environments']): Finding[] {
  return mounts.flatMap(([name, mount], index) => {
    const path = ['keys', 'vault', 'transit', 'mounts', name];
    const owner = mounts.slice(0, index).find(([, other]) => other === mount)?.[0];
    const unknown = `unknown environment${didYouMean(name, environments.keys())}`;
    const same = `must differ from the mount of ${owner}: each environment has a separate Transit engine`;
    return [
      ...(environments.has(name) ? [] : [{ path, message: unknown }]),
      ...(owner === undefined ? [] : [{ path, message: same }]),
    ];
  });
}

/** Without an endpoint there would silently be no canary for RSA keys. */
function missingEndpoints(environments: Parts['environments']): Finding[] {
  return [...environments]
    .filter(([, { hasEndpoint }]) => !hasEndpoint)
    .map(([name]) => ({
      path: ['environments', name],
      message: 'requires canaryEndpoint or endpoints, because keys.rotation.canary is true',
    }));
}

function sharedAddresses(environments: Parts['environments']): Finding[] {
  const owners = new Map<string, string>();
  return [...environments].flatMap(([name, { baseUrl }]) => {
    if (baseUrl === undefined) return [];
    const url = canonicalUrl(baseUrl);
    const owner = owners.get(url);
    owners.set(url, owner ?? name);
    return owner === undefined ? [] : [{ path: ['environments', name, 'baseUrl'], message: shared(owner) }];
  });
}

function plainAddresses(environments: Parts['environments']): Finding[] {
  return [...environments]
    .filter(
      ([, { baseUrl, allowInsecureHttp }]) =>
        baseUrl !== undefined && isPlaintextRemote(baseUrl) && !allowInsecureHttp,
    )
    .map(([name]) => ({
      path: ['environments', name, 'baseUrl'],
      message: 'must use https unless the host is loopback, or set allowInsecureHttp: true',
    }));
}

function shared(owner: string): string {
  return `is also the URL of "${owner}", so keys of one could sign for the other: use separate URLs`;
}

/** Rules for issuers of JWTs, and for the credentials that refer to them. */
function jwtFindings({ jwtIssuers, callers }: Parts): Finding[] {
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

/** What is valid, and may yet surprise: `check` prints it, and does not fail. */
function noticeFindings(config: Config, builtIn: BuiltIn): Finding[] {
  return [
    ...dryRuns(config),
    ...transferRules(config),
    ...keptRules(config, builtIn),
    ...plainPasswords(config),
  ];
}

/** TLS with the server does not protect the password for the proxy. */
function plainPasswords({ environments, keys, jwtIssuers }: Config): Finding[] {
  const vault = keys.source === 'vault' ? { vault: keys.vault } : {};
  const groups = Object.entries({ environments, keys: vault, jwtIssuers });
  return groups.flatMap(([group, servers]) =>
    Object.entries(servers).flatMap(([name, { egressProxy }]) =>
      egressProxy?.username !== undefined && isPlaintextRemote(egressProxy.url)
        ? [{ path: [group, name, 'egressProxy', 'url'], message: plainPassword }]
        : [],
    ),
  );
}

const plainPassword =
  'sends the password for the proxy unencrypted: everybody on the way can read it. Use an https: URL if the proxy has one';

function dryRuns({ callers }: Config): Finding[] {
  return callers.flatMap(({ mode }, index) =>
    mode === 'dry-run'
      ? [
          {
            path: ['callers', index, 'mode'],
            message:
              'lets through every request, also what the grants do not allow: set enforce when the log has no more requests with the decision would-deny',
          },
        ]
      : [],
  );
}

/** Version 0.1.0 forwarded such transfers. Silent once the configuration says what it wants. */
function transferRules(config: Config): Finding[] {
  const open = Object.entries(config.environments).flatMap(([environment, { operations }]) => {
    const layers = [config.operations['transfer'], operations['transfer']];
    const undecided = [
      ...(layers.some((layer) => layer?.parameters?.['client_orderid']?.required !== undefined)
        ? []
        : ['without client_orderid (to allow it: parameters: { client_orderid: { required: false } })']),
      ...(layers.some((layer) => layer?.allowRepeatedParameters !== undefined)
        ? []
        : ['that repeats a parameter name (to allow it: allowRepeatedParameters: true)']),
    ];
    return undecided.length === 0 ? [] : [{ environment, undecided }];
  });
  return open
    .flatMap(({ environment, undecided }) => {
      const path = grantOf(config.callers, environment);
      const message = `allows transfers: one ${undecided.join(', or one ')} is rejected with 400 before it is signed. To confirm that or to change it, set the fields under operations.transfer`;
      return path === undefined ? [] : [{ path, message }];
    })
    .slice(0, 1);
}

/** The first grant of transfers in an environment. */
function grantOf(callers: readonly CallerConfig[], environment: string): Finding['path'] | undefined {
  const covers = (names: readonly string[], name: string) => names.includes('*') || names.includes(name);
  const grants = callers.flatMap(({ allow }, caller) =>
    allow.map((grant, index) => ({ grant, path: ['callers', caller, 'allow', index, 'operations'] })),
  );
  return grants.find(
    ({ grant }) => covers(grant.environments, environment) && covers(grant.operations, 'transfer'),
  )?.path;
}

/** In version 0.1.0 the parameters of an override replaced those of the built-in operation. */
function keptRules({ operations, environments }: Config, builtIn: BuiltIn): Finding[] {
  const layers = [
    { path: ['operations'], operations },
    ...Object.entries(environments).map(([name, environment]) => ({
      path: ['environments', name, 'operations'],
      operations: environment.operations,
    })),
  ];
  return layers.flatMap(({ path, operations: overrides }) =>
    Object.entries(overrides).flatMap(([name, { parameters }]) => {
      if (parameters === undefined || name === 'transfer') return [];
      const rules = Object.hasOwn(builtIn, name) ? (builtIn[name]?.parameters ?? {}) : {};
      const kept = Object.keys(rules).filter((rule) => !Object.hasOwn(parameters, rule));
      const message = `does not replace the built-in rules for ${kept.join(', ')}. To take one back, name it here, with required: false`;
      return kept.length === 0 ? [] : [{ path: [...path, name, 'parameters'], message }];
    }),
  );
}
