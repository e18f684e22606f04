import { configJsonSchema, type Schema } from '../../src/config/json-schema.ts';

/** The schema of the chart's values, with what it says about `config` made from the shape of the configuration. */
export function withConfigSchema(valuesSchema: string): string {
  const schema: { definitions: Record<string, unknown> } = JSON.parse(valuesSchema);
  schema.definitions['config'] = chartConfigSchema();
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}

/**
 * `config/schema.json` as Helm can read it. Helm's regular expressions are Go's, which know neither lookaround nor
 * back references: such patterns are left to the program.
 */
function chartConfigSchema(): unknown {
  const schema = configJsonSchema();
  delete schema.$schema;
  visit(schema);
  return schema;
}

function visit(schema: Schema): void {
  for (const inner of partsOf(schema)) visit(inner);
  if (/\(\?[=!<]|\\[1-9]/.test(schema.pattern ?? '')) delete schema.pattern;
  allowVariable(schema);
  chooseByName(schema);
  // The chart fills in the folder of keySecrets.
  if (Object.hasOwn(schema.properties ?? {}, 'directory')) {
    schema.required = (schema.required ?? []).filter((name) => name !== 'directory');
  }
}

/** A choice of words may be a variable too: `level: ${LOG_LEVEL}`. */
function allowVariable(schema: Schema): void {
  if (schema.enum === undefined) return;
  schema.anyOf = [{ enum: schema.enum }, { pattern: '\\$\\{' }];
  delete schema.enum;
}

/**
 * Alternatives that a constant such as `source: vault` tells apart: `if` and `then` instead of `oneOf`, so that an
 * error speaks of the chosen one alone.
 */
function chooseByName(schema: Schema): void {
  const options = (schema.oneOf ?? []).flatMap((option) => (typeof option === 'object' ? [option] : []));
  const choices = options.flatMap((option) =>
    Object.entries(option.properties ?? {}).flatMap(([name, field]) =>
      typeof field === 'object' && field.const !== undefined ? [{ name, value: field.const, option }] : [],
    ),
  );
  const name = choices[0]?.name;
  if (name === undefined) return;
  delete schema.oneOf;
  schema.required = [name];
  schema.properties = { [name]: { enum: choices.map(({ value }) => value) } };
  schema.allOf = choices.map(({ value, option }) => ({
    if: { properties: { [name]: { const: value } } },
    // oxlint-disable-next-line unicorn/no-thenable -- a word of JSON Schema
    then: option,
  }));
}

function partsOf({ properties, additionalProperties, propertyNames, items, anyOf, oneOf }: Schema): Schema[] {
  const parts = [
    ...Object.values(properties ?? {}),
    additionalProperties,
    propertyNames,
    ...[items].flat(),
    ...(anyOf ?? []),
    ...(oneOf ?? []),
  ];
  return parts.filter((part) => typeof part === 'object');
}
