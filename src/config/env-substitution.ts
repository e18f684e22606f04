export type EnvLookup = (name: string) => string | undefined;

/** `$${` is a literal `${`. A `${` without a valid name is an error. */
const reference = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{/g;

/** Replaces each `${NAME}` in a text, and reports those that cannot be replaced. */
export function substituteEnv(text: string, lookUp: EnvLookup): { text: string; problems: string[] } {
  const problems: string[] = [];
  const replaced = text.replaceAll(reference, (found: string, name: string | undefined) => {
    if (found === '$${') return '${';
    if (name === undefined) {
      problems.push('has "${" without a variable name: write ${NAME}, or "$${" for a literal "${"');
      return found;
    }
    const value = lookUp(name);
    if (value === undefined) problems.push(`requires the environment variable ${name}, which is not set`);
    return value ?? found;
  });
  return { text: replaced, problems };
}
