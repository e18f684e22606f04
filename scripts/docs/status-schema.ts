import { z } from 'zod';
import { statusSchema } from '../../src/observability/status/schema.ts';
import { cell, code, table } from './markdown.ts';

type Schema = z.core.JSONSchema.JSONSchema;

/** JSON Schema (2020-12) of `/status.json`. */
function statusJsonSchema(): Schema {
  const { $schema, ...schema } = z.toJSONSchema(statusSchema, {
    override: ({ jsonSchema }) => {
      // The format says the same as this long pattern, and every JSON integer is below this maximum.
      if (jsonSchema.format === 'date-time') delete jsonSchema.pattern;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
    },
  });
  return {
    ...($schema === undefined ? {} : { $schema }),
    title: 'Status of a Countersign instance',
    ...schema,
  };
}

/** Content of docs/status.schema.json. */
export function statusSchemaFile(): string {
  return `${JSON.stringify(statusJsonSchema(), null, 2)}\n`;
}

/** Every field; `[]` is each item of a list. Fields that only contain other fields are left out. */
export function statusTable(): string {
  const rows = fieldsBelow(statusJsonSchema(), '').map(({ path, type, description }) => [
    code(path),
    type,
    cell(description),
  ]);
  return table(['field', 'type', 'meaning'], rows);
}

interface Field {
  readonly path: string;
  readonly type: string;
  readonly description: string;
}

function fieldsBelow({ properties = {} }: Schema, parent: string): Field[] {
  return Object.entries(properties).flatMap(([name, field]) =>
    typeof field === 'object' ? fieldRows(field, parent === '' ? name : `${parent}.${name}`) : [],
  );
}

function fieldRows(field: Schema, path: string): Field[] {
  const { schema, isNullable } = withoutNull(field);
  const description = field.description ?? schema.description ?? '';
  const type = `${typeOf(schema)}${isNullable ? ' or null' : ''}`;
  const row = { path, type, description };
  const { items } = schema;
  if (typeof items === 'object' && !Array.isArray(items) && items.properties !== undefined) {
    return [...(description === '' ? [] : [row]), ...fieldsBelow(items, `${path}[]`)];
  }
  if (schema.properties === undefined) return [row];
  return [...(description === '' ? [] : [row]), ...fieldsBelow(schema, path)];
}

/** Zod describes a value that may be null as a choice of two. */
function withoutNull(field: Schema): { schema: Schema; isNullable: boolean } {
  const options = (field.anyOf ?? []).filter((option) => typeof option === 'object');
  const schema = options.find(({ type }) => type !== 'null');
  return schema === undefined ? { schema: field, isNullable: false } : { schema, isNullable: true };
}

function typeOf({ type, format, enum: values, items }: Schema): string {
  if (values !== undefined) return values.map((value) => code(String(value))).join(', ');
  if (format === 'date-time') return 'time';
  if (type !== 'array') return [type ?? 'object'].flat().join(' or ');
  return typeof items === 'object' && !Array.isArray(items) && items.type === 'string'
    ? 'list of strings'
    : 'list';
}
