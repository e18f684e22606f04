import { reportNotices } from './notices.ts';
import { type BuiltIn, checkOperations, operationNames } from './operation-rules.ts';
import { parseValue } from './parse-value.ts';
import { findingsOf, inOrder, located, type Path, type Problem } from './problem.ts';
import { checkCallers, checkEnvironments, parsePartially } from './rules.ts';
import { type Config, configSchema } from './schema.ts';
import { type EnvLookup, readDocument } from './yaml.ts';

interface ValidateOptions {
  readonly lookUp: EnvLookup;
  readonly builtIn: BuiltIn;
}

type ValidationResult =
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
  const { data: config, findings } = parseValue(configSchema, content.value);
  const parts = parsePartially(content.value);
  const acrossFields = findingsOf((report) => {
    checkEnvironments(parts, report);
    checkOperations(parts, builtIn, report);
    checkCallers(parts, operationNames(parts, builtIn), report);
  });
  const problems = located([...findings, ...acrossFields], lineOf);
  // An unset variable explains every other problem with its value.
  const unset = new Set(yamlProblems.map(({ path }) => path).filter((path) => path !== ''));
  const all = inOrder([...yamlProblems, ...problems.filter(({ path }) => !unset.has(path))]);
  if (config === undefined || all.length > 0) return { problems: all };
  const notices = findingsOf((report) => reportNotices(config, report));
  return { config, lineOf, notices: inOrder(located(notices, lineOf)) };
}
