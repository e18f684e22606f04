import { didYouMeanOneOf } from '../util/text.ts';

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
  if (!known.includes(name)) report(path, `unknown ${what}${didYouMeanOneOf(name, known)}`);
}
