import { configJsonSchema, type Schema } from '../../src/config/schema.ts';
import { cell, code, table } from './markdown.ts';

/** One field of the configuration. */
interface ConfigRow {
  /** `*` is a name that the operator chooses, `[]` each item of a list. */
  readonly path: string;
  readonly type: string;
  /** As it is written in the file; `required`; or empty if the field is optional and has no default. */
  readonly default: string;
  readonly description: string;
}

/** Every field, in the order of the schema. */
export function configTable(): ConfigRow[] {
  const rows = rowsBelow(configJsonSchema(), '');
  return [...new Map(rows.map((row) => [JSON.stringify(row), row])).values()];
}

function rowsBelow(schema: Schema, path: string): ConfigRow[] {
  const { properties = {}, additionalProperties, items, required = [] } = schema;
  const fields = Object.entries(properties).flatMap(([name, field]) => {
    if (typeof field !== 'object') return [];
    const at = path === '' ? name : `${path}.${name}`;
    return [rowOf(field, at, required.includes(name)), ...rowsBelow(field, at)];
  });
  return [
    ...fields,
    ...(typeof additionalProperties === 'object' ? rowsBelow(additionalProperties, `${path}.*`) : []),
    ...(typeof items === 'object' && !Array.isArray(items) ? rowsBelow(items, `${path}[]`) : []),
    ...(schema.anyOf ?? schema.oneOf ?? []).flatMap((option) => rowsBelow(option, path)),
  ];
}

function rowOf(field: Schema, path: string, required: boolean): ConfigRow {
  const fallback = field.default === undefined ? '' : JSON.stringify(field.default).replaceAll('"', '');
  return {
    path,
    type: typeOf(field),
    default: required ? 'required' : fallback,
    description: field.description ?? '',
  };
}

function typeOf({ const: only, enum: values, type, additionalProperties }: Schema): string {
  if (only !== undefined) return String(only);
  if (values !== undefined) return [...new Set(values.map(String))].join(' or ');
  if (typeof additionalProperties === 'object') return 'map by name';
  // Only numbers have two types in the schema: a variable may be given instead.
  return Array.isArray(type) ? String(type[0]) : (typeNames[type ?? 'object'] ?? 'object');
}

const typeNames: Readonly<Record<string, string>> = { string: 'string', array: 'list', boolean: 'boolean' };

/** A table for each top-level field. Fields that only contain other fields are left out. */
export function configurationTables(): string {
  const rows = configTable().filter(({ type }) => type !== 'object');
  const sections = Map.groupBy(rows, ({ path }) => path.replace(/[.[].*/, ''));
  return [...sections]
    .map(
      ([name, fields]) =>
        `## ${name}\n\n${table(['field', 'type', 'default', 'meaning'], fields.map(cellsOf))}`,
    )
    .join('\n\n');
}

function cellsOf({ path, type, default: fallback, description }: ConfigRow): string[] {
  const shown = fallback === 'required' ? fallback : code(fallback);
  return [code(path), type, shown, cell(description)];
}
