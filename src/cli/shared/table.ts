/** Characters in a line of a table, so that a terminal does not wrap it. */
const lineLength = 100;
/** Minimum width of the last column, even next to long names. */
const minLastWidth = 24;

/** Lines of a plain text table. The last column is wrapped between words if it is too long. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const last = head.length - 1;
  const widths = head
    .slice(0, last)
    .map((name, column) =>
      rows.reduce((width, row) => Math.max(width, (row[column] ?? '').length), name.length),
    );
  const indent = widths.reduce((sum, width) => sum + width + 2, 0);
  return [head, ...rows].flatMap((cells) => {
    const lead = widths.map((width, column) => (cells[column] ?? '').padEnd(width + 2)).join('');
    const [first = '', ...more] = wrapWords(cells[last] ?? '', Math.max(minLastWidth, lineLength - indent));
    return [`${lead}${first}`.trimEnd(), ...more.map((line) => ' '.repeat(indent) + line)];
  });
}

/** Breaks a text into lines of at most `width` characters. A longer word gets its own line. */
export function wrapWords(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const line = lines.at(-1);
    if (line === undefined || line.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines;
}
