import { removedOptions } from '../../src/config/removed.ts';
import { configJsonSchema, type Schema } from '../../src/config/schema.ts';

/** The schema of the chart's values, with `config` generated from the configuration schema. */
export function withConfigSchema(valuesSchema: string): string {
  const schema: { definitions: Record<string, unknown> } = JSON.parse(valuesSchema);
  schema.definitions['config'] = chartConfigSchema();
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}

/**
 * `config/schema.json` for Helm. Helm uses Go's regular expressions, which have neither lookaround nor backreferences:
 * patterns that need them are omitted, and Countersign checks them at startup.
 */
function chartConfigSchema(): unknown {
  const schema = configJsonSchema();
  delete schema.$schema;
  visit(schema);
  for (const [option, message] of Object.entries(removedOptions)) explain(schema, option.split('.'), message);
  return schema;
}

/** Helm prints the constant that a value must be, and no description: so that constant says what to do. */
function explain(schema: Schema, [name = '', ...rest]: readonly string[], message: string): void {
  for (const option of [schema, ...chosenOptions(schema)]) {
    const { properties, additionalProperties } = option;
    if (rest.length === 0) {
      if (properties !== undefined && additionalProperties === false)
        properties[name] ??= { const: `absent, since it ${message}` };
      continue;
    }
    const inner = name === '*' ? additionalProperties : properties?.[name];
    if (typeof inner === 'object') explain(inner, rest, message);
  }
}

/** What {@link chooseByName} chooses from. */
function chosenOptions({ allOf = [] }: Schema): Schema[] {
  return allOf.flatMap((choice) =>
    typeof choice === 'object' && typeof choice.then === 'object' ? [choice.then] : [],
  );
}

function visit(schema: Schema): void {
  for (const inner of partsOf(schema)) visit(inner);
  if (/\(\?[=!<]|\\[1-9]/.test(schema.pattern ?? '')) delete schema.pattern;
  allowVariable(schema);
  chooseByName(schema);
  omitRequired(schema, 'directory', ['directory']);
  // Of the audit trail.
  omitRequired(schema, 'sync', ['keyFile']);
}

/** Fields that the chart sets need not be in the values. @param marker a field that only this object has */
function omitRequired(schema: Schema, marker: string, fields: readonly string[]): void {
  if (!Object.hasOwn(schema.properties ?? {}, marker)) return;
  schema.required = (schema.required ?? []).filter((name) => !fields.includes(name));
}

/** An enum may also be a variable: `level: ${LOG_LEVEL}`. */
function allowVariable(schema: Schema): void {
  if (schema.enum === undefined) return;
  schema.anyOf = [{ enum: schema.enum }, { pattern: '\\$\\{' }];
  delete schema.enum;
}

/**
 * Replaces `oneOf` with `if` and `then` where a constant such as `source: vault` selects the alternative, so that errors
 * are about the selected one only.
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
    // oxlint-disable-next-line unicorn/no-thenable -- a JSON Schema keyword
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
