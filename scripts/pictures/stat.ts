import type { PanelModel } from '../dashboards/model.ts';
import { nameOf } from './legend.ts';
import { line } from './line.ts';
import type { RecordedQuery, Series } from './recorded.ts';
import { scaleFor } from './scale.ts';
import { text, textWidth } from './svg.ts';
import { type Box, colorOf, colors } from './theme.ts';
import { noData } from './timeseries.ts';
import { format } from './units.ts';

/** Pixels: space between two numbers, and maximum font size. */
const space = 8;
const maxFontSize = 44;

/** The content of a `stat` panel: the last value of each series, side by side. */
export function stat(panel: PanelModel, recorded: readonly RecordedQuery[], box: Box): string {
  const shown = panel.queries.flatMap(({ legend }, at) =>
    (recorded[at]?.series ?? [])
      .filter(({ values }) => values.some((value) => value !== null))
      .map((series) => ({ series, name: nameOf(legend, series.labels) })),
  );
  if (shown.length === 0) return noData(box);
  const width = (box.width - space * (shown.length - 1)) / shown.length;
  const numbers = shown.map(({ series }) => format(panel.unit, lastOf(series), 3));
  const size = Math.min(maxFontSize, ...numbers.map((number) => (width / textWidth(number, 1)) * 0.95));
  return shown
    .map(({ series, name }, at) => {
      const place = { ...box, x: box.x + at * (width + space), width };
      const center = { x: place.x + width / 2, 'text-anchor': 'middle' };
      const color = colorOf(lastOf(series), panel);
      const label = shown.length === 1 ? '' : name;
      const number = { ...center, y: box.y + box.height / 2 + 6, fill: color };
      return [
        spark(panel, series, place, color),
        text(label, { ...center, y: box.y + 12, fill: colors.text, 'font-size': 13 }),
        text(numbers[at] ?? '', { ...number, 'font-size': size, 'font-weight': 500 }),
      ].join('');
    })
    .join('');
}

function lastOf({ values }: Series): number {
  return values.findLast((value) => value !== null) ?? 0;
}

/** A sparkline along the bottom. */
function spark(panel: PanelModel, { values }: Series, box: Box, color: string): string {
  const { from, to } = scaleFor(
    values.filter((value) => value !== null),
    panel,
  );
  const bottom = box.y + box.height;
  const places = values.map((value, at) => {
    if (value === null) return undefined;
    const x = box.x + (at / (values.length - 1)) * box.width;
    return [x, bottom - (box.height / 3) * ((value - from) / (to - from))] as const;
  });
  return line(places, bottom, color, 0.15);
}
