import { configJsonSchema, type Schema } from '../../src/config/json-schema.ts';

/** One field of the configuration, for the README. */
export interface ConfigRow {
  /** `*` stands for a name of the reader's choice, `[]` for each item of a list. */
  readonly path: string;
  readonly type: string;
  /** As it would stand in the file; `required`, or empty where leaving it out has a meaning of its own. */
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
  if (values !== undefined) return values.join(' or ');
  if (typeof additionalProperties === 'object') return 'mapping by name';
  // The schema has two types only for numbers, since a variable may stand in their place.
  return Array.isArray(type) ? 'whole number' : (words[type ?? 'object'] ?? 'mapping');
}

const words: Readonly<Record<string, string>> = { string: 'text', array: 'list', boolean: 'true or false' };
