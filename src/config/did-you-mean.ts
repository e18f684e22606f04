/** `; did you mean "host"?` where one of the known names is close to this one, else nothing. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const [nearest] = [...known]
    .map((candidate) => ({ candidate, distance: distance(name.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ candidate, distance }) => distance <= Math.ceil(candidate.length / 3))
    .sort((a, b) => a.distance - b.distance);
  return nearest === undefined ? '' : `; did you mean "${nearest.candidate}"?`;
}

/** Levenshtein's: how many characters to insert, remove or replace. Names too long to be a slip are far. */
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
