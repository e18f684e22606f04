/** The whole number in at most 15 decimal digits that a text is; `undefined` if it is none, or not from `min` to `max`. */
export function wholeNumberIn(text: string, min = 0, max = 999_999_999_999_999): number | undefined {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  return number >= min && number <= max ? number : undefined;
}
