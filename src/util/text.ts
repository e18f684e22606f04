/** `undefined` for what is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The members of an object; none of anything else. */
export function entriesOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}

/** The whole number in at most 15 decimal digits that a text is; `undefined` if it is none, or not from `min` to `max`. */
export function wholeNumberIn(text: string, min = 0, max = 999_999_999_999_999): number | undefined {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  return number >= min && number <= max ? number : undefined;
}

/** Plain ASCII, in one line: a terminal or a log does not obey what a forger, or another server, wrote. */
export function printable(text: string): string {
  return text.replace(/[^ -~]/g, '?');
}
