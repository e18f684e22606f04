import { isDeepStrictEqual } from 'node:util';
import { credentialsOf, ownersIn } from '../../auth/authenticate.ts';
import { decide } from '../../auth/authorize.ts';
import { callersWith } from '../../auth/jwt/verify.ts';
import type { CallerConfig, Config } from '../../config/schema.ts';
import { isLoopback } from '../../config/url.ts';
import { ProxyError } from '../../errors.ts';
import { resolveLogin } from '../../gateway/login.ts';
import { createRoutes, type Routes } from '../../gateway/router.ts';
import { matchesPattern } from '../../identifiers.ts';
import type { Io } from '../shared/command.ts';
import { table } from '../shared/table.ts';

type Credential = CallerConfig['credentials'][number];

/** What a configuration allows. The names are those of `--json`. */
interface Allowed {
  /** Who may be a caller. */
  readonly credentials: readonly { readonly caller: string; readonly credential: Credential }[];
  readonly requests: readonly AllowedRequest[];
}

interface AllowedRequest {
  readonly caller: string;
  readonly environment: string;
  readonly operation: string;
  /** As in a grant: a login, or a login prefix followed by `*`. */
  readonly login: string;
  /** Absent: each one. */
  readonly endpoint?: string;
}

/** Exit code. */
const allowsMore = 3;

/** Prints what a configuration allows and an earlier one did not. @returns the exit code */
export function checkAgainst(now: Config, before: Config, json: boolean, io: Io): number {
  const more = allowedMore(now, before);
  const isMore = more.credentials.length + more.requests.length > 0;
  for (const line of json ? [JSON.stringify(more, null, 2)] : linesOf(more)) io.out(line);
  return isMore ? allowsMore : 0;
}

function linesOf({ credentials, requests }: Allowed): string[] {
  if (credentials.length + requests.length === 0) return ['allows nothing more'];
  const who = credentials.map(({ caller, credential }) => [caller, JSON.stringify(credential)]);
  const what = requests.map(({ caller, environment, operation, login, endpoint = 'any' }) => [
    caller,
    environment,
    operation,
    login,
    endpoint,
  ]);
  return [
    ...(who.length === 0 ? [] : table(['CALLER', 'NEW CREDENTIAL'], who)),
    ...(what.length === 0 ? [] : table(['CALLER', 'ENVIRONMENT', 'OPERATION', 'LOGIN', 'ENDPOINT'], what)),
  ];
}

/** Decided by what authenticates, routes and authorizes requests, for each credential and request that differs. */
export function allowedMore(now: Config, before: Config): Allowed {
  const routes = { now: createRoutes(now), before: createRoutes(before) };
  return {
    credentials: now.callers.flatMap(({ name: caller, credentials }) =>
      credentials
        .filter((credential) => !wasCaller(credential, caller, now, before))
        .map((credential) => ({ caller, credential })),
    ),
    requests: now.callers.flatMap((caller) => {
      const earlier = before.callers.find(({ name }) => name === caller.name);
      return Object.keys(now.environments).flatMap((environment) =>
        requestsOf({ now: caller, before: earlier }, environment, routes),
      );
    }),
  };
}

/** Whether everybody with a credential of this configuration was the same caller before. */
function wasCaller(credential: Credential, caller: string, now: Config, before: Config): boolean {
  const { byDigest, byUri, byDnsName, anonymous } = ownersIn(before.callers);
  if (isOfMore(credential, now.proxy, before.proxy)) return false;
  if ('tokenSha256' in credential) return byDigest.get(credential.tokenSha256)?.name === caller;
  if ('certificateUri' in credential) return byUri.get(credential.certificateUri)?.name === caller;
  if ('certificateDns' in credential)
    return byDnsName.get(credential.certificateDns.toLowerCase())?.name === caller;
  if ('anonymous' in credential) return anonymous?.name === caller;
  const { issuer: name, subject: sub = '*', claims } = credential.jwt;
  const { [name]: issuer } = now.jwtIssuers;
  const earlier = Object.entries(before.jwtIssuers).find(([, one]) =>
    (['issuer', 'audience', 'jwks', 'algorithms'] as const).every((field) =>
      isDeepStrictEqual(one[field], issuer?.[field]),
    ),
  );
  // A prefix stands for every claim that begins with it.
  const owners = callersWith(credentialsOf(before.callers, 'jwt'), earlier?.[0] ?? '', { ...claims, sub });
  return [...owners].some((owner) => owner.name === caller);
}

/** Whether the listener lets in who could not have had this credential: by its CAs and their lists, its address or its hosts. */
function isOfMore(credential: Credential, now: Config['proxy'], before: Config['proxy']): boolean {
  if ('anonymous' in credential)
    return (
      (isLoopback(before.host) && !isLoopback(now.host)) ||
      now.allowedHosts.some((host) => !before.allowedHosts.includes(host))
    );
  if (!('certificateUri' in credential || 'certificateDns' in credential)) return false;
  const [tls, earlier] = [now.tls, before.tls];
  const hasOtherList = earlier?.clientCrlFile !== undefined && tls?.clientCrlFile !== earlier.clientCrlFile;
  return tls?.clientCaFile !== earlier?.clientCaFile || hasOtherList;
}

interface Both<T, Before = T> {
  readonly now: T;
  readonly before: Before;
}

/** The requests of a caller in an environment that are allowed now, and were not before. */
function requestsOf(
  caller: Both<CallerConfig, CallerConfig | undefined>,
  environment: string,
  routes: Both<Routes>,
): AllowedRequest[] {
  const endpoints = endpointsOf(routes.now, environment);
  const earlier = endpointsOf(routes.before, environment);
  const ids = [...new Set([...Object.keys(endpoints), ...Object.keys(earlier)])];
  const changed = ids.filter((id) => endpoints[id] !== earlier[id]);
  const patterns = patternsOf(caller.now);
  const all = [...patterns, ...patternsOf(caller.before), ...Object.values(endpoints)];
  const logins = new Map(all.map((pattern) => [pattern, loginsOf(pattern, all)]));
  const operations = routes.now.operations.get(environment) ?? [];
  const unmapped = unlike('', [...ids, ...operations.flatMap(({ routes }) => routes.flat())]);
  return operations.flatMap(({ name: operation, routes: ways }) => {
    const paths = ways.map((segments) => `/${segments.join('/')}`);
    const ofEndpoints = paths.filter((path) => path.includes('{endpoint'));
    const isMore = (paths: readonly string[], endpoint: string) => (pattern: string) =>
      paths.some((path) =>
        (logins.get(pattern) ?? []).some((login) => {
          const probe = { environment, path, login, endpoint };
          return isAllowed(routes.now, caller.now, probe) && !isAllowed(routes.before, caller.before, probe);
        }),
      );
    const row = { caller: caller.now.name, environment, operation };
    const anywhere = withoutCovered(patterns.filter(isMore(paths, unmapped)));
    const rest = (pattern: string) => !anywhere.some((one) => matchesPattern(one, pattern));
    const at = (endpoint: string) => {
      const { [endpoint]: login } = endpoints;
      // Any other login contradicts it.
      const possible = login === undefined ? patterns : [login];
      return withoutCovered(possible.filter(rest).filter(isMore(ofEndpoints, endpoint)));
    };
    return [
      ...anywhere.map((login) => ({ ...row, login })),
      ...changed.flatMap((endpoint) => at(endpoint).map((login) => ({ ...row, login, endpoint }))),
    ];
  });
}

function endpointsOf({ config }: Routes, environment: string): Readonly<Record<string, string>> {
  return config.environments[environment]?.endpoints ?? {};
}

/** With all logins, which a dry run allows. */
function patternsOf(caller: CallerConfig | undefined): string[] {
  return [...new Set(['*', ...(caller?.allow.flatMap(({ logins }) => logins) ?? [])])];
}

/** Without those that others stand for. */
function withoutCovered(patterns: readonly string[]): string[] {
  return [...new Set(patterns)].filter(
    (pattern, _, all) => !all.some((one) => one !== pattern && matchesPattern(one, pattern)),
  );
}

interface Probe {
  readonly environment: string;
  /** Of an operation. */
  readonly path: string;
  readonly login: string;
  readonly endpoint: string;
}

/** The steps of a request from its route to its authorization. */
function isAllowed(
  { config, resolve }: Routes,
  caller: CallerConfig | undefined,
  { environment, path, login, endpoint }: Probe,
): boolean {
  const product = config.environments[environment]?.product;
  const target = path.replace('{login}', login).replace(/\{endpoint(Group)?\}/, endpoint);
  if (caller === undefined || product === undefined) return false;
  try {
    const destination = resolve(`/${environment}/${product}${target}`);
    const operation = destination.operation.name;
    return (
      decide(caller, { environment, operation, login: resolveLogin(destination, [], login) }) !== 'denied'
    );
  } catch (error) {
    if (error instanceof ProxyError) return false;
    throw error;
  }
}

/** A prefix stands for itself, and for what begins with it and with none of the longer patterns. */
function loginsOf(pattern: string, all: readonly string[]): string[] {
  const prefix = pattern.slice(0, -1);
  return pattern.endsWith('*') ? [prefix, unlike(prefix, all)] : [pattern];
}

/** Of a login or an endpoint. */
const characters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789~@_-.'.split('');

/** A name that begins with the prefix, and is neither one of the longer patterns nor, if possible, matched by one. */
function unlike(prefix: string, patterns: readonly string[]): string {
  const names = characters.map((character) => prefix + character);
  const free = names.find((name) => !patterns.some((pattern) => pattern.startsWith(name)));
  return free ?? unlike(names.find((name) => !patterns.includes(`${name}*`)) ?? `${prefix}a`, patterns);
}
