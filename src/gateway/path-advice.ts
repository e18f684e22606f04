/**
 * What is odd about a request target that has no route, as a sentence. Looks at the text of the target only, so that it
 * shows nothing of what is configured, and does not repeat it, since it may hold anything.
 */
export function pathAdvice(target: string): string | undefined {
  const segments = target.split('/').slice(1);
  const oddities = [
    segments.length > 1 && segments.at(-1) === '' ? 'ends with a slash' : undefined,
    segments.slice(0, -1).includes('') ? 'has an empty segment' : undefined,
    segments.slice(0, -1).some((segment) => /[A-Z]/.test(segment))
      ? 'has capital letters, and paths are case-sensitive'
      : undefined,
    prefixOddity(segments.filter((segment) => segment !== '')),
  ].filter((oddity) => oddity !== undefined);
  return oddities.length === 0 ? undefined : `The path ${oddities.join('; it ')}.`;
}

/** Environment and product come before `api`. */
function prefixOddity(segments: readonly string[]): string | undefined {
  const count = segments.findIndex((segment) => segment.toLowerCase() === 'api');
  if (count === -1) return 'has no segment "api"';
  if (count === 0) return 'has neither an environment nor a product before /api/';
  if (count === 1) return 'has only one segment before /api/, so the environment or the product is missing';
  return count > 2 ? 'has more than an environment and a product before /api/' : undefined;
}
