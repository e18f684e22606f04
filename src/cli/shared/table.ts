/** Columns of a terminal that shows a table without breaking its lines. */
const columns = 100;
/** Even beside long names the last column stays wide enough to be read. */
const narrowest = 24;

/** Lines of a plain text table; the last column is broken between words where it is too long. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const last = head.length - 1;
  const widths = head
    .slice(0, last)
    .map((name, column) => Math.max(name.length, ...rows.map((row) => (row[column] ?? '').length)));
  const indent = widths.reduce((sum, width) => sum + width + 2, 0);
  return [head, ...rows].flatMap((cells) => {
    const lead = widths.map((width, column) => (cells[column] ?? '').padEnd(width + 2)).join('');
    const [first = '', ...more] = wrapped(cells[last] ?? '', Math.max(narrowest, columns - indent));
    return [`${lead}${first}`.trimEnd(), ...more.map((line) => ' '.repeat(indent) + line)];
  });
}

function wrapped(text: string, width: number): string[] {
  return text.split(' ').reduce<string[]>((lines, word) => {
    const line = lines.at(-1);
    if (line === undefined || line.length + 1 + word.length > width) return [...lines, word];
    return [...lines.slice(0, -1), `${line} ${word}`];
  }, []);
}
