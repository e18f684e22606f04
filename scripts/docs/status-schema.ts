import { z } from 'zod';
import { statusSchema } from '../../src/observability/status/schema.ts';

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
