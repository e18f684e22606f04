/** Keys and indices from the root of the file. */
export type Path = readonly PropertyKey[];

/** A problem at a path, without its line. */
export interface Finding {
  readonly path: Path;
  /** What is wrong and what to do. Repeats no value of the file, which might be a secret. */
  readonly message: string;
}

/** Takes a {@link Finding}. */
export type Report = (path: Path, message: string) => void;

export function findingsOf(check: (report: Report) => void): Finding[] {
  const findings: Finding[] = [];
  check((path, message) => findings.push({ path, message }));
  return findings;
}

/** Every value after the first with the same key, and that first one. Without a key, a value is like no other. */
export function repeated<T>(values: Iterable<T>, keyOf: (value: T) => unknown): [repeat: T, first: T][] {
  const firsts = new Map<unknown, { readonly first: T }>();
  return [...values].flatMap((value): [T, T][] => {
    const key = keyOf(value);
    const known = firsts.get(key);
    if (known === undefined) firsts.set(key, { first: value });
    return known === undefined || key === undefined ? [] : [[value, known.first]];
  });
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

/** The problems of a file. @param lineOf the line of a path in it, from 1 */
export function located(findings: readonly Finding[], lineOf: (path: Path) => number): Problem[] {
  return findings.map(({ path, message }) => ({ path: pathText(path), line: lineOf(path), message }));
}

/** Sorted by line, without duplicates. */
export function inOrder(problems: readonly Problem[]): Problem[] {
  const distinct = new Map(problems.map((problem) => [JSON.stringify(problem), problem]));
  return [...distinct.values()].sort((a, b) => a.line - b.line);
}

export function reportUnknown(
  path: Path,
  name: string,
  known: readonly string[],
  what: string,
  report: Report,
): void {
  if (!known.includes(name)) report(path, `unknown ${what}${didYouMean(name, known)}`);
}

/** `; did you mean "host"?` if a known name is close to this one, else an empty string. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const [nearest] = [...known]
    .map((candidate) => ({ candidate, distance: distance(name.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ candidate, distance }) => distance <= Math.ceil(candidate.length / 3))
    .sort((a, b) => a.distance - b.distance);
  return nearest === undefined ? '' : `; did you mean "${nearest.candidate}"?`;
}

/** Levenshtein distance. Infinite for names that are too long to be a typo. */
function distance(from: string, to: string): number {
  if (from.length > 128) return Number.POSITIVE_INFINITY;
  let above = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (const [row, character] of from.split('').entries()) {
    const current = [row + 1];
    for (let column = 1; column <= to.length; column += 1) {
      const replaced = (above[column - 1] ?? 0) + (character === to[column - 1] ? 0 : 1);
      current.push(Math.min(replaced, (above[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    above = current;
  }
  return above[to.length] ?? 0;
}
