import { configJsonSchema, type Schema } from '../../src/config/schema.ts';
import { cell, code, table } from './markdown.ts';

/** One field of the configuration. */
interface ConfigRow {
  /** `*` is a name that the operator chooses, `[]` each item of a list. */
  readonly path: string;
  /** Markdown: the default and other values; `required`; or empty if the field is optional and has no default. */
  readonly default: string;
  readonly description: string;
}

/** Every field, in the order of the schema. Fields that stand in several places are described in one of them. */
export function configTable(): ConfigRow[] {
  const schema = configJsonSchema();
  const top = Object.entries(schema.properties ?? {}).map(([name, field]) => [blockOf(field), name] as const);
  const rows = rowsBelow(schema, '', new Map(top));
  return [...new Map(rows.map((row) => [JSON.stringify(row), row])).values()];
}

/** @param places where each block of fields is described */
function rowsBelow(schema: Schema, path: string, places: Map<string | undefined, string>): ConfigRow[] {
  const { properties = {}, additionalProperties, items, required = [] } = schema;
  const fields = Object.entries(properties).flatMap(([name, field]) => {
    if (typeof field !== 'object') return [];
    const at = path === '' ? name : `${path}.${name}`;
    const block = blockOf(field);
    const place = block === undefined ? at : (places.get(block) ?? at);
    if (place !== at) return [{ path: at, default: '', description: `As ${code(place)}.` }];
    places.set(block, at);
    return [...rowsOf(field, at, required.includes(name)), ...rowsBelow(field, at, places)];
  });
  return [
    ...fields,
    ...(typeof additionalProperties === 'object' ? rowsBelow(additionalProperties, `${path}.*`, places) : []),
    ...(typeof items === 'object' && !Array.isArray(items) ? rowsBelow(items, `${path}[]`, places) : []),
    ...(schema.anyOf ?? schema.oneOf ?? []).flatMap((option) => rowsBelow(option, path, places)),
  ];
}

/** The fields below one, as text. */
function blockOf(field: Schema | boolean | undefined): string | undefined {
  if (typeof field !== 'object') return undefined;
  const { properties, additionalProperties: each } = field;
  const fields = properties ?? (typeof each === 'object' ? each.properties : undefined);
  return fields === undefined ? undefined : JSON.stringify(fields);
}

/** None for a field that only contains other fields. */
function rowsOf(field: Schema, path: string, isRequired: boolean): ConfigRow[] {
  const { properties, anyOf, oneOf, const: only, enum: values = [only], default: fallback } = field;
  if ((properties ?? anyOf ?? oneOf) !== undefined) return [];
  const written = [fallback, ...values].filter((value) => value !== undefined);
  const texts = written.map((value) => code(JSON.stringify(value).replaceAll('"', '')));
  const shown = [...new Set(texts)].join(' or ');
  const required = shown === '' ? 'required' : `required: ${shown}`;
  return [{ path, default: isRequired ? required : shown, description: field.description ?? '' }];
}

/** A table for each top-level field. */
export function configurationTables(): string {
  const sections = Map.groupBy(configTable(), ({ path }) => path.replace(/[.[].*/, ''));
  return [...sections]
    .map(([name, fields]) => `## ${name}\n\n${table(['field', 'default', 'meaning'], fields.map(cellsOf))}`)
    .join('\n\n');
}

function cellsOf({ path, default: fallback, description }: ConfigRow): string[] {
  return [code(path), fallback, cell(description)];
}
