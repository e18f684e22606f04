import { z } from 'zod';
import { didYouMean } from '../util/did-you-mean.ts';
import type { Finding, Path } from './problem.ts';

export type Schema = z.core.JSONSchema.JSONSchema;

/** Parses a value. Findings are in our own texts, with one for each unknown key. */
export function parseValue<T extends z.ZodType>(
  schema: T,
  value: unknown,
): { readonly data?: z.output<T>; readonly findings: readonly Finding[] } {
  const { success, data, error } = schema.safeParse(value, { error: errorMap, reportInput: true });
  if (success) return { data, findings: [] };
  let made: Schema | undefined;
  // Takes longer than all the rest, and only an unknown key needs it.
  const root = (): Schema => {
    made ??= z.toJSONSchema(schema, { io: 'input', target: 'draft-7', unrepresentable: 'any' });
    return made;
  };
  return { findings: findingsIn(error.issues, root, []) };
}

/** @param root gives the JSON Schema of the whole value, which has the known keys */
function findingsIn(issues: readonly z.core.$ZodIssue[], root: () => Schema, at: Path): Finding[] {
  return issues.flatMap((issue) => {
    const path = [...at, ...issue.path];
    if (issue.code === 'unrecognized_keys')
      return issue.keys.map((key) => unknownKey(path, key, root(), issue.input));
    const alternatives = issue.code === 'invalid_union' ? issue.errors : [];
    const [fitting, ...others] = alternatives.filter((errors) =>
      errors.every(({ code }) => code !== 'unrecognized_keys'),
    );
    // If the keys fit only one alternative, its own issues are more helpful than the union's.
    return fitting !== undefined && others.length === 0
      ? findingsIn(fitting, root, path)
      : [{ path, message: issue.message }];
  });
}

function unknownKey(path: Path, key: string, root: Schema, input: unknown): Finding {
  const schemas = schemasAt(path, root);
  const known = keysOf(schemas);
  const others = keysOf(schemas.filter((schema) => fits(schema, input)));
  const alike = others.filter((name) => lastWord(name) === lastWord(key));
  const advice = alike.length === 1 ? `; did you mean "${alike[0]}"?` : ': remove it';
  const message = known.includes(key)
    ? `is not allowed in combination with its sibling keys${advice}`
    : `is not a known key${didYouMean(key, known)}`;
  return { path: [...path, key], message };
}

function keysOf(schemas: readonly Schema[]): string[] {
  return schemas.flatMap(({ properties = {} }) => Object.keys(properties));
}

/** Whether a mapping has the constants of a schema, such as `method: kubernetes`. */
function fits({ properties = {} }: Schema, input: unknown): boolean {
  const given: Readonly<Record<string, unknown>> = typeof input === 'object' ? { ...input } : {};
  return Object.entries(properties).every(
    ([name, schema]) =>
      typeof schema !== 'object' || schema.const === undefined || schema.const === given[name],
  );
}

/** `File` of `tokenFile`. */
function lastWord(name: string): string {
  return /[A-Z][a-z]*$/.exec(name)?.[0] ?? name;
}

/** Our own texts for zod's issues. A message in the schema takes precedence. */
const errorMap: z.core.$ZodErrorMap = (issue) => {
  const { code, input } = issue;
  if (code === 'invalid_type') return wrongType(issue.expected, input);
  if (code === 'invalid_value')
    return `${input === undefined ? 'is missing: it ' : ''}must be ${issue.values.map(String).join(' or ')}`;
  if (code === 'invalid_union')
    return Array.isArray(issue.options) ? `must be ${issue.options.map(String).join(' or ')}` : undefined;
  if (code === 'invalid_key') return issue.issues[0]?.message ?? 'is not a valid name';
  if (code === 'too_small')
    return issue.origin === 'number' ? `must be at least ${issue.minimum}` : 'must not be empty';
  return code === 'too_big' ? `must be at most ${issue.maximum}` : undefined;
};

function wrongType(expected: string, input: unknown): string {
  const type = types[expected] ?? expected;
  if (input === undefined) return `is missing: it must be ${type}`;
  if (input === null) return `is empty: set it to ${type}, or remove the key`;
  if (expected === 'string' && typeof input !== 'object') return 'must be a string: put it in quotes';
  return `must be ${type}`;
}

const types: Readonly<Record<string, string>> = {
  array: 'a list',
  boolean: 'true or false',
  int: 'a whole number',
  number: 'a whole number',
  object: 'a mapping of keys to values',
  record: 'a mapping of names to values',
  string: 'a string',
};

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
