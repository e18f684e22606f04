import type { Config, EnvironmentConfig } from '../config/schema.ts';
import { ProxyError } from '../errors.ts';
import { isIdentifier } from '../identifiers.ts';
import { type Operation, resolveOperations } from './operations.ts';

const placeholders = ['login', 'endpoint', 'endpointGroup'] as const;
type Placeholder = (typeof placeholders)[number];
export type PathValues = Readonly<Partial<Record<Placeholder, string>>>;

/** Where a request goes, built from configuration and checked values; nothing of the caller's target is in it. */
export interface Destination {
  readonly environment: string;
  readonly settings: EnvironmentConfig;
  readonly operation: Operation;
  readonly values: PathValues;
  /** The full URL at the gateway: what is signed and where it is sent. */
  readonly url: URL;
}

/** A path segment: literal children first, then the placeholder, whose name the operation knows. */
interface RouteNode {
  readonly literals: Map<string, RouteNode>;
  placeholder?: RouteNode;
  operation?: Operation;
}

/**
 * Makes the look-up from request target to destination: `/{environment}/{product}` and then the operation's
 * path. A literal wins over a placeholder and is not reconsidered, so `/status/group` is never the endpoint
 * "group".
 *
 * The look-up throws Refusal: `unknown-route` (one answer for an unknown environment and an unknown
 * operation), `parameter-invalid` for a value that cannot be a login, endpoint or group.
 */
export function createRouter(config: Config): (target: string) => Destination {
  const environments = new Map(
    Object.entries(config.environments).map(([name, settings]) => [
      name,
      {
        settings,
        base: settings.baseUrl.replace(/\/+$/, ''),
        root: buildRouteTree(resolveOperations(config, name)),
      },
    ]),
  );
  return (target) => {
    const [leading, name = '', product, ...segments] = target.split('/');
    const environment = environments.get(name);
    if (leading !== '' || environment === undefined || product !== environment.settings.product)
      throw unknownRoute();
    const operation = matchRoute(environment.root, segments);
    const values = valuesOf(operation, segments);
    const path = operation.segments.map((segment) => expandSegment(segment, values)).join('/');
    const url = new URL(`${environment.base}/${product}/${path}`);
    return { environment: name, settings: environment.settings, operation, values, url };
  };
}

function buildRouteTree(operations: readonly Operation[]): RouteNode {
  const root: RouteNode = { literals: new Map() };
  for (const operation of operations) {
    operation.segments.reduce(addSegment, root).operation = operation;
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

function matchRoute(root: RouteNode, segments: readonly string[]): Operation {
  let node: RouteNode | undefined = root;
  for (const segment of segments) node = node?.literals.get(segment) ?? node?.placeholder;
  if (node?.operation === undefined) throw unknownRoute();
  return node.operation;
}

function valuesOf(operation: Operation, segments: readonly string[]): PathValues {
  const values: Partial<Record<Placeholder, string>> = {};
  for (const [index, segment] of segments.entries()) {
    const name = placeholderOf(operation.segments[index] ?? '');
    if (name !== undefined) values[name] = pathValue(name, segment);
  }
  return values;
}

/** Decoded once: `%252e` is the text `%2e`, which the pattern refuses. */
function pathValue(name: Placeholder, segment: string): string {
  let value = '';
  try {
    value = decodeURIComponent(segment);
  } catch {
    // Left empty: refused below like every other value that does not fit.
  }
  if (isIdentifier(value)) return value;
  throw new ProxyError(
    'parameter-invalid',
    `The ${name} in the path must be 1 to 128 of A-Z a-z 0-9 . _ ~ @ - and not "." or "..".`,
  );
}

function expandSegment(segment: string, values: PathValues): string {
  const name = placeholderOf(segment);
  return name === undefined ? segment : encodeURIComponent(values[name] ?? '');
}

function placeholderOf(segment: string): Placeholder | undefined {
  return placeholders.find((name) => segment === `{${name}}`);
}

function unknownRoute(): ProxyError {
  return new ProxyError(
    'unknown-route',
    'Nothing is configured for this path. It has the form /{environment}/{product}/api/...; check the spelling of the environment and of the operation.',
  );
}
