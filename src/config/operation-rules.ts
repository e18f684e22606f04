import { type Path, type Report, repeated } from './problem.ts';
import type { Parts } from './rules.ts';
import type { OperationConfig, OperationOverride } from './schema.ts';

export type BuiltIn = Readonly<Record<string, OperationConfig>>;

/** One layer of operations: built in, of the configuration, or of an environment. */
interface Layer {
  readonly path: Path;
  readonly operations: Parts['operations'];
}

/** What the rules about operations need. */
type OperationParts = Pick<Parts, 'operations' | 'environments'>;

/** Names that a grant may use: built in, or added for all environments or for one. */
export function operationNames(parts: OperationParts, builtIn: BuiltIn): string[] {
  return [...new Set(layersOf(parts, builtIn).flat().flatMap(namesIn))];
}

/** Rules for each operation over all its layers, of each environment and of what they share. */
export function checkOperations(parts: OperationParts, builtIn: BuiltIn, report: Report): void {
  for (const layers of layersOf(parts, builtIn)) {
    const names = [...new Set(layers.flatMap(namesIn))];
    const merged = names.map((name) => mergedOperation(name, layers));
    for (const { lowest, place, path, loginFrom } of merged) {
      const missing = missingFields(lowest.fields);
      if (missing.length > 0)
        report(lowest.path, `is not a built-in operation, so it also requires ${missing.join(', ')}`);
      if (loginFrom === 'path' && path?.includes('{login}') === false)
        report(place, 'takes the login from the path, so its path must contain {login}');
    }
    const sameTemplate = repeated(merged, ({ path }) => path?.replaceAll(/\{\w+\}/g, '{}'));
    for (const [{ place }, { name }] of sameTemplate) report(place, `conflicts with the path of "${name}"`);
  }
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
  const top = own.findLast(({ fields }) => fields?.path !== undefined || fields?.loginFrom !== undefined);
  const lowest = own[0] ?? { path: [name], fields: undefined };
  return { name, lowest, place: top?.path ?? [name], path: fields.path, loginFrom: fields.loginFrom };
}

/** An operation that no lower layer has is new, and inherits no fields. */
function missingFields(fields: OperationOverride | undefined): string[] {
  const required = ['path', 'signature', 'loginFrom'] as const;
  return fields === undefined ? [] : required.filter((field) => fields[field] === undefined);
}
