import { describe, expect, it } from '@jest/globals';
import { configJsonSchema, type Schema } from '../../../src/config/schema.ts';

describe('the JSON Schema of the configuration', () => {
  it('accepts a variable in place of formatted text, a number or a secret, but not as a name', () => {
    const patterns = schemasAt(['proxy', 'timeouts', 'body'], configJsonSchema()).map(
      ({ pattern = '' }) => new RegExp(pattern),
    );
    expect(
      patterns.map((pattern) => [pattern.test('10s'), pattern.test('${BODY}'), pattern.test('ten')]),
    ).toEqual([[true, true, false]]);
    expect(schemasAt(['proxy', 'port'], configJsonSchema())).toMatchObject([
      { type: ['integer', 'string'], pattern: '\\$\\{' },
    ]);
    expect(schemasAt(['environments'], configJsonSchema())).toMatchObject([
      { propertyNames: { pattern: '^[a-z][a-z0-9-]{0,31}$' } },
    ]);
    expect(schemasAt(['keys', 'vault', 'auth', 'token'], configJsonSchema())).toMatchObject([
      { type: 'string' },
    ]);
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

/** The schemas of a path in `root`; several if it depends on a sibling such as `source`. */
function schemasAt(path: readonly string[], root: Schema): readonly Schema[] {
  return path.reduce<readonly Schema[]>(
    (parents, step) => parents.flatMap((schema) => childSchemas(schema, step)),
    alternatives(root),
  );
}

function childSchemas(schema: Schema, name: string): readonly Schema[] {
  const { properties = {}, additionalProperties, items } = schema;
  const next = Object.hasOwn(properties, name) ? properties[name] : (additionalProperties ?? items);
  return typeof next === 'object' && !Array.isArray(next) ? alternatives(next) : [];
}

function alternatives(schema: Schema): readonly Schema[] {
  const options = schema.anyOf ?? schema.oneOf ?? [];
  return [schema, ...options.flatMap((option) => (typeof option === 'object' ? alternatives(option) : []))];
}
