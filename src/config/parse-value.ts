import { z } from 'zod';
import { didYouMean } from '../util/text.ts';
import { type Finding, inOrder, located, type Path, type Problem } from './problem.ts';
import { credential, jwksSource } from './schema/caller.ts';
import { auth, keys } from './schema/keys.ts';
import type { EnvLookup } from './variables.ts';
import { readDocument } from './yaml.ts';

interface ParsedDocument<T> {
  readonly data: T;
  /** The line of a path in the text, from 1. */
  readonly lineOf: (path: Path) => number;
}

/**
 * The data of a YAML text, or all its problems in the order of their lines. No message contains a value of the text.
 *
 * @param lookUp replaces variables
 */
export function parseText<T extends z.ZodType>(
  text: string,
  schema: T,
  lookUp?: EnvLookup,
): ParsedDocument<z.output<T>> | { readonly problems: readonly Problem[] } {
  const { content, problems: yamlProblems, lineOf } = readDocument(text, lookUp);
  if (content === undefined) return { problems: inOrder(yamlProblems) };
  const { data, findings } = parseValue(schema, content.value);
  // An unset variable explains every other problem with its value.
  const unset = new Set(yamlProblems.map(({ path }) => path).filter((path) => path !== ''));
  const problems = located(findings, lineOf).filter(({ path }) => !unset.has(path));
  const all = inOrder([...yamlProblems, ...problems]);
  return data === undefined || all.length > 0 ? { problems: all } : { data, lineOf };
}

/** Parses a value. Findings are in our own texts, with one for each unknown key. */
export function parseValue<T extends z.ZodType>(
  schema: T,
  value: unknown,
): { readonly data?: z.output<T>; readonly findings: readonly Finding[] } {
  const rejectedBy: RejectedKeys = new Map();
  const { success, data, error } = schema.safeParse(value, {
    error: (issue) => {
      // The issues of the result do not have it.
      if (issue.code === 'unrecognized_keys') rejectedBy.set(issue.keys, issue.inst);
      return textOf(issue);
    },
  });
  return success ? { data, findings: [] } : { findings: findingsIn(error.issues, rejectedBy, []) };
}

/** The schema that rejected unknown keys. */
type RejectedKeys = Map<readonly string[], unknown>;

function findingsIn(issues: readonly z.core.$ZodIssue[], rejectedBy: RejectedKeys, at: Path): Finding[] {
  return issues.flatMap((issue) => {
    const path = [...at, ...issue.path];
    if (issue.code === 'unrecognized_keys')
      return issue.keys.map((key) => ({
        path: [...path, key],
        message: unknownKey(key, rejectedBy.get(issue.keys)),
      }));
    const alternatives = issue.code === 'invalid_union' ? issue.errors : [];
    const [fitting, ...others] = alternatives.filter((errors) =>
      errors.every(({ code }) => code !== 'unrecognized_keys'),
    );
    // If the keys fit only one alternative, its own issues are more helpful than the union's.
    return fitting !== undefined && others.length === 0
      ? findingsIn(fitting, rejectedBy, path)
      : [{ path, message: issue.message }];
  });
}

/** Mappings that have one of several sets of keys. */
const choices: readonly (readonly unknown[])[] = [keys, auth, credential, jwksSource].map(
  ({ options }) => options,
);

function unknownKey(key: string, mapping: unknown): string {
  const options = choices.find((options) => options.includes(mapping)) ?? [mapping];
  const known = options.flatMap(keysOf);
  return known.includes(key)
    ? 'is not allowed in combination with its sibling keys: remove it'
    : `is not a known key${didYouMean(key, known)}`;
}

function keysOf(schema: unknown): string[] {
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
}

/** Our own texts for zod's issues. A message in the schema takes precedence. */
const textOf: z.core.$ZodErrorMap = (issue) => {
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
