import type { Overrides, Parts } from '../partial-parse.ts';
import type { Finding, Path } from '../problem.ts';
import type { OperationConfig, OperationOverride } from '../schema.ts';

export type BuiltIn = Readonly<Record<string, OperationConfig>>;

/** One layer of operations: built in, of the configuration, or of an environment. */
interface Layer {
  readonly path: Path;
  readonly operations: Overrides;
}

/** What the rules about operations need. */
type OperationParts = Pick<Parts, 'operations' | 'environments'>;

/** Names that a grant may use: built in, or added for all environments or for one. */
export function operationNames(parts: OperationParts, builtIn: BuiltIn): ReadonlySet<string> {
  return new Set(
    layersOf(parts, builtIn)
      .flat()
      .flatMap(({ operations }) => [...operations.keys()]),
  );
}

export function operationFindings(parts: OperationParts, builtIn: BuiltIn): Finding[] {
  return layersOf(parts, builtIn).flatMap((layers) => [
    ...layers.flatMap((layer, level) => incomplete(layer, layers.slice(0, level))),
    ...inconsistent(layers),
  ]);
}

/** The layers of each environment, lowest first, and those that all environments share. */
function layersOf(parts: OperationParts, builtIn: BuiltIn): Layer[][] {
  const shared: Layer[] = [
    { path: [], operations: new Map(Object.entries(builtIn)) },
    { path: ['operations'], operations: parts.operations },
  ];
  const own = [...parts.environments].map(([name, { operations }]) => ({
    path: ['environments', name, 'operations'],
    operations,
  }));
  return [shared, ...own.map((layer) => [...shared, layer])];
}

/** An operation that no lower layer has is new, and inherits no fields. */
function incomplete(layer: Layer, below: readonly Layer[]): Finding[] {
  return [...layer.operations].flatMap(([name, fields]) => {
    if (fields === undefined || below.some(({ operations }) => operations.has(name))) return [];
    const missing = (['path', 'signature', 'loginFrom'] as const).filter(
      (field) => fields[field] === undefined,
    );
    const message = `is not a built-in operation, so it also requires ${missing.join(', ')}`;
    return missing.length === 0 ? [] : [{ path: [...layer.path, name], message }];
  });
}

/** Problems that only the merged layers show. */
function inconsistent(layers: readonly Layer[]): Finding[] {
  const names = new Set(layers.flatMap(({ operations }) => [...operations.keys()]));
  const owners = new Map<string, string>();
  return [...names].flatMap((name) => {
    const { path, loginFrom: login } = merged(layers, name);
    if (path === undefined) return [];
    const at = placeOf(layers, name);
    const template = path.replaceAll(/\{\w+\}/g, '{}');
    const owner = owners.get(template);
    owners.set(template, owner ?? name);
    return [
      ...(login !== 'path' || path.includes('{login}')
        ? []
        : [{ path: at, message: 'takes the login from the path, so its path must contain {login}' }]),
      ...(owner === undefined ? [] : [{ path: at, message: `conflicts with the path of "${owner}"` }]),
    ];
  });
}

/** Empty for an operation that is invalid in one layer. */
function merged(layers: readonly Layer[], name: string): OperationOverride {
  const fields = layers
    .filter(({ operations }) => operations.has(name))
    .map((layer) => layer.operations.get(name));
  return fields.includes(undefined) ? {} : Object.assign({}, ...fields);
}

/** The topmost layer that sets one of the checked fields. */
function placeOf(layers: readonly Layer[], name: string): Path {
  const layer = layers.findLast(({ operations }) => {
    const fields = operations.get(name);
    return fields?.path !== undefined || fields?.loginFrom !== undefined;
  });
  return [...(layer?.path ?? []), name];
}
