/**
 * The value of a variable; `undefined` if it is not set.
 *
 * @param path of the field that uses it, such as `keys.vault.address`
 */
export type EnvLookup = (name: string, path: string) => string | undefined;

/** `$${` is a literal `${`. A `${` without a valid name is an error. */
const reference = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{/g;

/** Replaces each `${NAME}` in the text of a field, and reports those that cannot be replaced. */
export function substituteEnv(
  text: string,
  path: string,
  lookUp: EnvLookup,
): { text: string; problems: string[] } {
  const problems: string[] = [];
  const replaced = text.replaceAll(reference, (found: string, name: string | undefined) => {
    if (found === '$${') return '${';
    if (name === undefined) {
      problems.push('has "${" without a variable name: write ${NAME}, or "$${" for a literal "${"');
      return found;
    }
    const value = lookUp(name, path);
    if (value === undefined) problems.push(`requires the environment variable ${name}, which is not set`);
    return value ?? found;
  });
  return { text: replaced, problems };
}
