import type { PanelModel, Section } from './model.ts';

export interface Placed {
  readonly item: Section | PanelModel;
  readonly gridPos: { x: number; y: number; w: number; h: number };
}

const columns = 24;
const sizes = { stat: { w: 6, h: 5 }, timeseries: { w: 12, h: 8 }, table: { w: 24, h: 8 } } as const;

/** Each section is a row with its panels below, from left to right, wrapped at 24 columns. */
export function place(sections: readonly Section[]): readonly Placed[] {
  const placed: Placed[] = [];
  let y = 0;
  for (const section of sections) {
    placed.push({ item: section, gridPos: { x: 0, y, w: columns, h: 1 } });
    y += 1;
    let x = 0;
    let rowHeight = 0;
    for (const panel of section.panels) {
      const { w, h } = sizes[panel.kind ?? 'timeseries'];
      if (x + w > columns) {
        x = 0;
        y += rowHeight;
        rowHeight = 0;
      }
      placed.push({ item: panel, gridPos: { x, y, w, h } });
      x += w;
      rowHeight = Math.max(rowHeight, h);
    }
    y += rowHeight;
  }
  return placed;
}
