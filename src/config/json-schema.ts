import { z } from 'zod';
import type { Path } from './problem.ts';
import { configSchema } from './schema.ts';

export type Schema = z.core.JSONSchema.JSONSchema;

/** JSON Schema of the configuration file, for editors: `config/schema.json`. */
export function configJsonSchema(): Schema {
  return z.toJSONSchema(configSchema, {
    io: 'input',
    target: 'draft-7',
    override: ({ jsonSchema, path }) => {
      if (!path.includes('propertyNames')) allowVariable(jsonSchema);
    },
  });
}

/** Any value may be a variable, which an editor cannot resolve. Zod visits some schemas more than once. */
function allowVariable(schema: Schema): void {
  const variable = '\\$\\{';
  if (schema.type === 'integer' || schema.type === 'number')
    Object.assign(schema, { type: [schema.type, 'string'], pattern: variable });
  if (schema.pattern?.endsWith(variable) === false) schema.pattern = `${schema.pattern}|${variable}`;
}

/** The schemas of a path in `root`; several if it depends on a sibling such as `source`. */
export function schemasAt(path: Path, root: Schema): readonly Schema[] {
  return path.reduce<readonly Schema[]>(
    (parents, step) => parents.flatMap((schema) => childSchemas(schema, step)),
    alternatives(root),
  );
}

function childSchemas(schema: Schema, step: PropertyKey): readonly Schema[] {
  const { properties = {}, additionalProperties, items } = schema;
  const name = String(step);
  const next = Object.hasOwn(properties, name) ? properties[name] : (additionalProperties ?? items);
  return typeof next === 'object' && !Array.isArray(next) ? alternatives(next) : [];
}

function alternatives(schema: Schema): readonly Schema[] {
  const options = schema.anyOf ?? schema.oneOf ?? [];
  return [schema, ...options.flatMap((option) => (typeof option === 'object' ? alternatives(option) : []))];
}
