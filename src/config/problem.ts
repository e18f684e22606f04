/** Keys and indices from the root of the file, as zod and yaml both have them. */
export type Path = readonly PropertyKey[];

/** What is wrong at a place, before it is known on which line that is. */
export interface Finding {
  readonly path: Path;
  /** What is wrong and what to do about it. Repeats no value of the file, which might be a secret. */
  readonly message: string;
}

export interface Problem {
  /** Such as `callers[2].allow[0].logins[1]`; empty where the file as a whole is meant. */
  readonly path: string;
  /** From 1; 0 where there is no line, as for a file that cannot be read. */
  readonly line: number;
  readonly message: string;
}

export function pathText(path: Path): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`;
    const name = String(step);
    if (!/^[A-Za-z_][\w-]*$/.test(name)) return `${text}[${JSON.stringify(name)}]`;
    return text === '' ? name : `${text}.${name}`;
  }, '');
}

/** In the order of the file, each once. */
export function inOrder(problems: readonly Problem[]): Problem[] {
  const distinct = new Map(problems.map((problem) => [JSON.stringify(problem), problem]));
  return [...distinct.values()].sort((a, b) => a.line - b.line);
}
