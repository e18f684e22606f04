import { isCollection, parseDocument, Scalar, visit } from 'yaml';

const variable = /\$\{\w+\}/g;

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
