import type { EnvLookup } from './env-substitution.ts';
import { parsePartially } from './partial-parse.ts';
import { type Finding, inOrder, type Path, type Problem, pathText } from './problem.ts';
import { callerFindings } from './rules/callers.ts';
import { environmentFindings } from './rules/environments.ts';
import { type BuiltIn, operationFindings, operationNames } from './rules/operations.ts';
import { type Config, configSchema } from './schema.ts';
import { readDocument } from './yaml/parse.ts';
import { errorMap, shapeFindings } from './zod-messages.ts';

export interface ValidateOptions {
  /** Value of an environment variable. */
  readonly lookUp: EnvLookup;
  readonly builtIn: BuiltIn;
}

export type ValidationResult =
  | {
      readonly config: Config /** 1-based line of a place in the file. */;
      readonly lineOf: (path: Path) => number;
    }
  | { readonly problems: readonly Problem[] };

/**
 * Turns the text of a configuration file into a {@link Config}, or says everything that is wrong with it, in
 * the order of its lines. Never throws; does no I/O; no message holds a value of the file.
 */
export function validateConfig(text: string, { lookUp, builtIn }: ValidateOptions): ValidationResult {
  const { content, problems: unread, lineOf } = readDocument(text, lookUp);
  if (content === undefined) return { problems: inOrder(unread) };
  const shaped = configSchema.safeParse(content.value, { error: errorMap });
  const findings = [
    ...(shaped.success ? [] : shapeFindings(shaped.error.issues)),
    ...crossFieldFindings(content.value, builtIn),
  ];
  const problems = findings.map(({ path, message }) => ({
    path: pathText(path),
    line: lineOf(path),
    message,
  }));
  // A variable that is not set explains whatever else is wrong with the value it stands in.
  const unset = new Set(unread.map(({ path }) => path).filter((path) => path !== ''));
  const all = inOrder([...unread, ...problems.filter(({ path }) => !unset.has(path))]);
  return shaped.success && all.length === 0 ? { config: shaped.data, lineOf } : { problems: all };
}

/** What one field alone cannot tell. Parts that are wrong in themselves do not hide the others. */
function crossFieldFindings(value: unknown, builtIn: BuiltIn): Finding[] {
  const parts = parsePartially(value);
  return [
    ...environmentFindings(parts),
    ...operationFindings(parts, builtIn),
    ...callerFindings(parts, operationNames(parts, builtIn)),
  ];
}
