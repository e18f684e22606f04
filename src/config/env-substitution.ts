export type EnvLookup = (name: string) => string | undefined;

/** `$${` is a literal `${`; what begins like a variable and is none is a slip. */
const reference = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{/g;

/** A text with its `${NAME}`s replaced, and what is wrong with those that could not be. */
export function substituteEnv(text: string, lookUp: EnvLookup): { text: string; problems: string[] } {
  const problems: string[] = [];
  const replaced = text.replaceAll(reference, (found: string, name: string | undefined) => {
    if (found === '$${') return '${';
    if (name === undefined) {
      problems.push('has "${" without a variable: write ${NAME}, or "$${" for the characters themselves');
      return found;
    }
    const value = lookUp(name);
    if (value === undefined) problems.push(`needs the environment variable ${name}, which is not set`);
    return value ?? found;
  });
  return { text: replaced, problems };
}
