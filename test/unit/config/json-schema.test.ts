import { describe, expect, it } from '@jest/globals';
import { configJsonSchema, type Schema } from '../../../src/config/schema.ts';

describe('the JSON Schema of the configuration', () => {
  it('accepts a variable in place of formatted text or a number, but not as a name', () => {
    const duration = '^\\d{1,10}(ms|s|m|h|d)$|\\$\\{';
    expect(configJsonSchema().properties).toMatchObject({
      proxy: {
        properties: {
          port: { type: ['integer', 'string'], pattern: '\\$\\{' },
          timeouts: { properties: { body: { type: 'string', pattern: duration } } },
        },
      },
      environments: { propertyNames: { pattern: '^[a-z][a-z0-9-]{0,31}$' } },
    });
    const accepted = ['10s', '${BODY}', 'ten'].map((text) => new RegExp(duration).test(text));
    expect(accepted).toEqual([true, true, false]);
  });

  it('describes every field', () => {
    expect(fieldsWithoutDescription(configJsonSchema(), '')).toEqual([]);
  });
});

function fieldsWithoutDescription(schema: Schema, path: string): string[] {
  const { properties = {}, additionalProperties, items, anyOf, oneOf } = schema;
  const inner = [additionalProperties, items, ...(anyOf ?? oneOf ?? [])].flat();
  return [
    ...Object.entries(properties).flatMap(([name, field]) =>
      typeof field === 'object'
        ? [
            ...(field.description ? [] : [`${path}.${name}`]),
            ...fieldsWithoutDescription(field, `${path}.${name}`),
          ]
        : [],
    ),
    ...inner.flatMap((part) => (typeof part === 'object' ? fieldsWithoutDescription(part, path) : [])),
  ];
}
