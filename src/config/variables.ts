import { hash } from 'node:crypto';
import { isCollection, parseDocument, Scalar, visit } from 'yaml';
import type { Path } from './problem.ts';

/**
 * The value of a variable; `undefined` if it is not set.
 *
 * @param path of the field that uses it
 */
export type EnvLookup = (name: string, path: Path) => string | undefined;

/** Own properties only: `${constructor}` is a variable that is not set. */
export const fromEnvironment = (name: string): string | undefined =>
  Object.hasOwn(process.env, name) ? process.env[name] : undefined;

/** In place of a variable that is not set: a digest fits most fields. */
export const placeholder = (name: string): string => hash('sha256', name);

/** The text with `${NAME}` in place of each {@link placeholder}. */
export const withNames = (text: string, names: readonly string[]): string =>
  names.reduce((named, name) => named.replaceAll(placeholder(name), () => `\${${name}}`), text);

/** `$${` is a literal `${`. A `${` without a valid name is an error. */
const reference = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{/g;

const variable = /\$\{\w+\}/g;

/** Replaces each `${NAME}` in the text of a field, and reports those that cannot be replaced. */
export function substituteEnv(
  text: string,
  lookUp: (name: string) => string | undefined,
  report: (message: string) => void,
): string {
  return text.replaceAll(reference, (found: string, name: string | undefined) => {
    if (found === '$${') return '${';
    const value = name && lookUp(name);
    if (name === undefined)
      report('has "${" without a variable name: write ${NAME}, or "$${" for a literal "${"');
    else if (value === undefined) report(`requires the environment variable ${name}, which is not set`);
    return value ?? found;
  });
}

/**
 * Where a `${NAME}` within `{ }` or `[ ]` is not in quotes, in characters. YAML reads its brace as another mapping, and
 * then reports errors far from the cause.
 *
 * Parses the text once more with plain words of the same length in place of the variables.
 */
export function unquotedVariables(text: string): readonly number[] {
  const variables = [...text.matchAll(variable)].map(({ index }) => index);
  if (variables.length === 0) return [];
  const readable = parseDocument(
    text.replace(variable, (found) => 'x'.repeat(found.length)),
    { prettyErrors: false, logLevel: 'error' },
  );
  const unquoted: number[] = [];
  visit(readable, {
    Scalar(_, scalar, above) {
      const inFlow = above.some((node) => isCollection(node) && node.flow === true);
      const [start = 0, end = 0] = scalar.range ?? [];
      if (scalar.type === Scalar.PLAIN && inFlow)
        unquoted.push(...variables.filter((at) => start <= at && at < end));
    },
  });
  return unquoted;
}
