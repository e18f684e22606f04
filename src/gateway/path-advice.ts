/**
 * What to correct in a request target that has no route, in sentences. Looks at the text of the target only, so that it
 * shows nothing of what is configured, and does not repeat it, since it may hold anything.
 */
export function pathAdvice(target: string): string | undefined {
  const segments = target.split('/').slice(1);
  const advice = [
    segments.length > 1 && segments.at(-1) === '' ? 'Remove the slash at the end of the path.' : undefined,
    segments.slice(0, -1).includes('') ? 'Remove the empty segment from the path.' : undefined,
    segments.slice(0, -1).some((segment) => /[A-Z]/.test(segment))
      ? 'Check the capital letters in the path: paths are case-sensitive.'
      : undefined,
    prefixAdvice(segments.filter((segment) => segment !== '')),
  ].filter((sentence) => sentence !== undefined);
  return advice.length === 0 ? undefined : advice.join(' ');
}

/** Environment and product come before `api`. */
function prefixAdvice(segments: readonly string[]): string | undefined {
  const count = segments.findIndex((segment) => segment.toLowerCase() === 'api');
  if (count === -1) return 'Begin the path with /{environment}/{product}/api/.';
  if (count === 0) return 'Put the environment and the product before /api/.';
  if (count === 1) return 'Put both the environment and the product before /api/: there is only one segment.';
  return count > 2 ? 'Put nothing but the environment and the product before /api/.' : undefined;
}
