/** Plain ASCII: a terminal does not obey what a forger, or another server, wrote. */
export function printable(text: string): string {
  return text.replace(/[^ -~]/g, '?');
}
