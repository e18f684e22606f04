/** Keys and indices from the root of the file. */
export type Path = readonly PropertyKey[];

/** A problem at a path, without its line. */
export interface Finding {
  readonly path: Path;
  /** What is wrong and what to do. Repeats no value of the file, which might be a secret. */
  readonly message: string;
}

export interface Problem {
  /** Such as `callers[2].allow[0].logins[1]`; empty for the whole file. */
  readonly path: string;
  /** From 1; 0 if there is no line, as for an unreadable file. */
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

/** Sorted by line, without duplicates. */
export function inOrder(problems: readonly Problem[]): Problem[] {
  const distinct = new Map(problems.map((problem) => [JSON.stringify(problem), problem]));
  return [...distinct.values()].sort((a, b) => a.line - b.line);
}
