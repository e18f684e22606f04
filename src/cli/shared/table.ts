/** Characters in a line of a table, so that a terminal does not wrap it. */
export const lineLength = 100;

/** A text of several lines is not narrower than this. */
const minLastWidth = 24;

const belowIndent = '    ';

type Row = readonly string[];

export function table(head: Row, rows: readonly Row[], width = lineLength): string[] {
  return columns([head, ...rows], width);
}

/**
 * Lines of plain text. The last column is wrapped between words if it is too long, and comes below its row if there is
 * too little space beside long names, or less than a word of it takes.
 */
export function columns(rows: readonly Row[], width = lineLength): string[] {
  const last = (rows[0]?.length ?? 1) - 1;
  const widths = Array.from({ length: last }, (_, column) =>
    rows.reduce((width, row) => Math.max(width, (row[column] ?? '').length), 0),
  );
  const indent = widths.reduce((sum, width) => sum + width + 2, 0);
  return rows.flatMap((cells) => {
    const lead = widths.map((width, column) => (cells[column] ?? '').padEnd(width + 2)).join('');
    const text = cells[last] ?? '';
    if (text === '') return [lead.trimEnd()];
    const space = width - indent;
    const beside = wrapWords(text, space);
    const isNarrow = space < minLastWidth && beside.length > 1;
    if (isNarrow || beside.some((line) => line.length > space)) {
      const below = wrapWords(text, width - belowIndent.length);
      return [lead.trimEnd(), ...below.map((line) => belowIndent + line)];
    }
    const [first = '', ...more] = beside;
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
