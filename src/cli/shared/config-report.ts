import type { Problem } from '../../config/problem.ts';

/** The problems of a configuration file as lines to print: file and line, path, message; then their number. */
export function formatProblems(file: string, problems: readonly Problem[], noun = 'problem'): string[] {
  const places = problems.map(({ line }) => (line === 0 ? `${file}:` : `${file}:${line}:`));
  const width = Math.max(...places.map(({ length }) => length));
  return [
    ...problems.map(({ path, message }, index) =>
      [(places[index] ?? '').padEnd(width), ...(path === '' ? [] : [`${path}:`]), message].join(' '),
    ),
    problems.length === 1 ? `1 ${noun}` : `${problems.length} ${noun}s`,
  ];
}
