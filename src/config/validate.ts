import type { EnvLookup } from './env-substitution.ts';
import { configJsonSchema } from './json-schema.ts';
import { parsePartially } from './partial-parse.ts';
import { type Finding, inOrder, type Path, type Problem, pathText } from './problem.ts';
import { callerFindings } from './rules/callers.ts';
import { environmentFindings } from './rules/environments.ts';
import { jwtFindings } from './rules/jwt.ts';
import { noticeFindings } from './rules/notices.ts';
import { type BuiltIn, operationFindings, operationNames } from './rules/operations.ts';
import { type Config, configSchema } from './schema.ts';
import { readDocument } from './yaml/parse.ts';
import { errorMap, schemaFindings } from './zod-messages.ts';

export interface ValidateOptions {
  readonly lookUp: EnvLookup;
  readonly builtIn: BuiltIn;
}

export type ValidationResult =
  | {
      readonly config: Config;
      /** The line of a path in the file, from 1. */
      readonly lineOf: (path: Path) => number;
      /** What is valid, and may yet surprise. */
      readonly notices: readonly Problem[];
    }
  | { readonly problems: readonly Problem[] };

/**
 * Parses the text of a configuration file into a {@link Config}, or reports all problems in the order of their lines.
 * Never throws and does no I/O. No message contains a value of the file.
 */
export function validateConfig(text: string, { lookUp, builtIn }: ValidateOptions): ValidationResult {
  const { content, problems: yamlProblems, lineOf } = readDocument(text, lookUp);
  if (content === undefined) return { problems: inOrder(yamlProblems) };
  const parsed = configSchema.safeParse(content.value, { error: errorMap, reportInput: true });
  const findings = [
    ...(parsed.success ? [] : schemaFindings(parsed.error.issues, configJsonSchema)),
    ...crossFieldFindings(content.value, builtIn),
  ];
  const withLine = ({ path, message }: Finding): Problem => ({
    path: pathText(path),
    line: lineOf(path),
    message,
  });
  const problems = findings.map(withLine);
  // An unset variable explains every other problem with its value.
  const unset = new Set(yamlProblems.map(({ path }) => path).filter((path) => path !== ''));
  const all = inOrder([...yamlProblems, ...problems.filter(({ path }) => !unset.has(path))]);
  if (!parsed.success || all.length > 0) return { problems: all };
  const notices = inOrder(noticeFindings(parsed.data, builtIn).map(withLine));
  return { config: parsed.data, lineOf, notices };
}

/** Rules across fields. Invalid parts do not hide problems in others. */
function crossFieldFindings(value: unknown, builtIn: BuiltIn): Finding[] {
  const parts = parsePartially(value);
  return [
    ...environmentFindings(parts),
    ...operationFindings(parts, builtIn),
    ...callerFindings(parts, operationNames(parts, builtIn)),
    ...jwtFindings(parts),
  ];
}
