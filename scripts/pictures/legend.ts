import { element, fitted, text, textWidth } from './svg.ts';
import { type Box, colors, sizes } from './theme.ts';

export interface Entry {
  readonly name: string;
  readonly color: string;
}

const rowHeight = 18;
const mark = { width: 14, space: 6, after: 16 };

/** The names of the series, wrapped into rows, drawn from the top of the box. */
export function legend(
  entries: readonly Entry[],
  width: number,
): { height: number; draw: (at: Box) => string } {
  const rows: (Entry & { x: number })[][] = [[]];
  let x = 0;
  for (const { name, color } of entries) {
    const shown = fitted(name, sizes.letters, width - mark.width - mark.space);
    const needed = mark.width + mark.space + textWidth(shown, sizes.letters);
    if (x + needed > width) {
      rows.push([]);
      x = 0;
    }
    rows.at(-1)?.push({ name: shown, color, x });
    x += needed + mark.after;
  }
  return {
    height: rows.length * rowHeight,
    draw: (box) => rows.flatMap((row, line) => row.map((entry) => drawEntry(entry, box, line))).join(''),
  };
}

function drawEntry({ name, color, x }: Entry & { x: number }, box: Box, line: number): string {
  const left = box.x + x;
  const middle = box.y + line * rowHeight + rowHeight / 2;
  return (
    element('rect', { x: left, y: middle - 2, width: mark.width, height: 4, rx: 1, fill: color }) +
    text(name, { x: left + mark.width + mark.space, y: middle + 4, fill: colors.text })
  );
}

/** Replaces `{{label}}` in a legend template with the labels of a series. */
export function nameOf(template: string, labels: Readonly<Record<string, string>>): string {
  return template.replaceAll(/\{\{(\w+)\}\}/g, (_all, label: string) => labels[label] ?? '');
}
