/** Plain ASCII: the terminal of an auditor does not obey what a forger wrote. */
export function printable(text: string): string {
  return text.replace(/[^ -~]/g, '?');
}
