import type { Config, EnvironmentConfig } from '../config/schema.ts';
import { ProxyError } from '../errors.ts';
import { identifierCharacters, identifierPattern } from '../identifiers.ts';
import { createOperationTable, type Operation, type OperationTable } from './operations.ts';

const placeholders = ['login', 'endpoint', 'endpointGroup'] as const;
type Placeholder = (typeof placeholders)[number];
type PathValues = Readonly<Partial<Record<Placeholder, string>>>;

/** Where a request goes. Built from configuration and validated values, never from the client's request target. */
export interface Destination {
  readonly environment: string;
  readonly settings: EnvironmentConfig;
  readonly operation: Operation;
  readonly values: PathValues;
  /** The full URL at the gateway, which is signed and requested. */
  readonly url: URL;
}

/** A configuration with its operations and routes, which are derived from it once. */
export interface Routes {
  readonly config: Config;
  readonly operations: OperationTable;
  /** Finds the destination of a request target. Errors are about its text alone, but for a known client. @throws ProxyError `unknown-route`, `parameter-invalid` */
  readonly resolve: (target: string, client?: RouteClient) => Destination;
}

/** Who asks for a route. */
export interface RouteClient {
  /** Whether an error may say what is configured for an environment. Absent: for none. */
  readonly mayKnow: (environment: string) => boolean;
}

export function createRoutes(config: Config): Routes {
  const operations = createOperationTable(config);
  return { config, operations, resolve: createRouter(config, operations) };
}

/** A path segment. The placeholder's name is in the operation's path. */
interface RouteNode {
  readonly literals: Map<string, RouteNode>;
  placeholder?: RouteNode;
  route?: Route;
}

/** An operation, and the placeholder of each of its path segments; `undefined` for a literal. */
interface Route {
  readonly operation: Operation;
  readonly segments: readonly string[];
  readonly placeholders: readonly (Placeholder | undefined)[];
}

/**
 * Finds the destination of a request target: `/{environment}/{product}`, then the operation's path. A literal segment
 * has precedence over a placeholder, without backtracking, so `/status/group` is never the endpoint "group".
 *
 * The returned function throws ProxyError `unknown-route` (the same for an unknown environment and an unknown
 * operation; another product of an environment that the client may know is named), and `parameter-invalid` for a value that is not a valid login, endpoint or endpoint group.
 */
function createRouter(config: Config, operations: OperationTable): Routes['resolve'] {
  const environments = new Map(
    Object.entries(config.environments).map(([name, settings]) => [
      name,
      {
        settings,
        base: settings.baseUrl.replace(/\/+$/, ''),
        root: buildRouteTree(operations.get(name) ?? []),
      },
    ]),
  );
  return (target, client) => {
    const [empty, name = '', product, ...segments] = target.split('/');
    const environment = environments.get(name);
    if (empty !== '' || environment === undefined) throw unknownRoute(target);
    if (product !== environment.settings.product) {
      const known =
        client?.mayKnow(name) === true ? { name, product: environment.settings.product } : undefined;
      throw unknownRoute(target, known);
    }
    let node: RouteNode | undefined = environment.root;
    for (const segment of segments) node = node?.literals.get(segment) ?? node?.placeholder;
    const route = node?.route;
    if (route === undefined) throw unknownRoute(target);
    const { values, path } = expandPath(route, segments);
    const url = new URL(`${environment.base}/${product}${path}`);
    return { environment: name, settings: environment.settings, operation: route.operation, values, url };
  };
}

function buildRouteTree(operations: readonly Operation[]): RouteNode {
  const root: RouteNode = { literals: new Map() };
  for (const operation of operations) {
    for (const segments of operation.routes) {
      const placeholders = segments.map(placeholderOf);
      segments.reduce(addSegment, root).route = { operation, segments, placeholders };
    }
  }
  return root;
}

function addSegment(node: RouteNode, segment: string): RouteNode {
  if (placeholderOf(segment) !== undefined) {
    node.placeholder ??= { literals: new Map() };
    return node.placeholder;
  }
  const next = node.literals.get(segment) ?? { literals: new Map() };
  node.literals.set(segment, next);
  return next;
}

/** The operation's path with the values of the request target: `/api/v4/status/1234`. */
function expandPath(
  { segments: literals, placeholders }: Route,
  segments: readonly string[],
): { values: PathValues; path: string } {
  const values: Partial<Record<Placeholder, string>> = {};
  let path = '';
  for (const [index, literal] of literals.entries()) {
    const name = placeholders[index];
    if (name === undefined) {
      path += `/${literal}`;
      continue;
    }
    const value = pathValue(name, segments[index] ?? '');
    values[name] = value;
    path += `/${encodeURIComponent(value)}`;
  }
  return { values, path };
}

/** Decoded once only: `%252e` becomes `%2e`, which is not a valid identifier. */
function pathValue(name: Placeholder, segment: string): string {
  let value = '';
  try {
    value = decodeURIComponent(segment);
  } catch {
    // Stays empty, and is rejected below.
  }
  if (identifierPattern.test(value)) return value;
  throw new ProxyError(
    'parameter-invalid',
    `Invalid ${name} in the path. It must have 1 to 128 characters of ${identifierCharacters} and must not be "." or "..".`,
  );
}

function placeholderOf(segment: string): Placeholder | undefined {
  return placeholders.find((name) => segment === `{${name}}`);
}

/** @param known the environment of the target, if the client may know its product */
function unknownRoute(
  target: string,
  known?: { readonly name: string; readonly product: string },
): ProxyError {
  const product =
    known && `The product of ${known.name} is "${known.product}": use /${known.name}/${known.product}/api/.`;
  const sentences = [
    'Unknown path. Expected /{environment}/{product}/api/...; check the spelling of the environment, of the product and of the operation, and that operationsFile names your own operations.',
    product ?? pathAdvice(target),
  ];
  return new ProxyError('unknown-route', sentences.filter((sentence) => sentence !== undefined).join(' '));
}

/**
 * What to correct in a request target that has no route, in sentences. Looks at the text of the target only, so that it
 * shows nothing of what is configured, and does not repeat it, since it may hold anything.
 */
export function pathAdvice(target: string): string | undefined {
  const segments = target.split('/').slice(1);
  const advice = [
    segments.length > 1 && segments.at(-1) === '' ? 'Remove the slash at the end of the path.' : undefined,
    segments.slice(0, -1).includes('') ? 'Remove the empty segment from the path.' : undefined,
    segments.slice(0, -1).some((segment) => /[A-Z]/.test(segment))
      ? 'Check the capital letters in the path: paths are case-sensitive.'
      : undefined,
    prefixAdvice(segments.filter((segment) => segment !== '')),
  ].filter((sentence) => sentence !== undefined);
  return advice.length === 0 ? undefined : advice.join(' ');
}

/** Environment and product come before `api`. */
function prefixAdvice(segments: readonly string[]): string | undefined {
  const count = segments.findIndex((segment) => segment.toLowerCase() === 'api');
  if (count === -1) return 'Begin the path with /{environment}/{product}/api/.';
  if (count === 0) return 'Put the environment and the product before /api/.';
  if (count === 1) return 'Put both the environment and the product before /api/: there is only one segment.';
  return count > 2 ? 'Put nothing but the environment and the product before /api/.' : undefined;
}
