import type { PanelModel } from '../dashboards/model.ts';
import { legend, nameOf } from './legend.ts';
import { line } from './line.ts';
import type { RecordedQuery, Recording } from './recorded.ts';
import { type Scale, scaleFor } from './scale.ts';
import { element, text, textWidth } from './svg.ts';
import { type Box, colors, palette, sizes } from './theme.ts';
import { format } from './units.ts';

interface Line {
  readonly name: string;
  readonly color: string;
  readonly values: readonly (number | null)[];
}

const timeAxis = 22;

/** The content of a `timeseries` panel. */
export function timeseries(
  panel: PanelModel,
  recorded: readonly RecordedQuery[],
  span: Recording,
  box: Box,
): string {
  const lines = linesOf(panel, recorded);
  const values = lines.flatMap((one) => one.values.filter((value) => value !== null));
  if (values.length === 0) return noData(box);
  const names = legend(lines, box.width);
  const scale = scaleFor(values, panel);
  const labels = scale.ticks.map((tick) => format(panel.unit, tick));
  const axis = Math.max(...labels.map((label) => textWidth(label, sizes.letters))) + 6;
  const height = box.height - names.height - timeAxis;
  const plot: Box = { x: box.x + axis, y: box.y, width: box.width - axis, height };
  return [
    valueAxisLabels(scale, labels, plot),
    timeAxisLabels(span, plot),
    ...lines.map((one) => drawLine(one, scale, plot)),
    limits(panel, scale, plot),
    names.draw({ ...box, y: plot.y + height + timeAxis }),
  ].join('');
}

function linesOf({ queries }: PanelModel, recorded: readonly RecordedQuery[]): Line[] {
  return queries
    .flatMap(({ legend: template }, at) =>
      (recorded[at]?.series ?? []).map(({ labels, values }) => ({ name: nameOf(template, labels), values })),
    )
    .map((one, at) => ({ ...one, color: palette[at % palette.length] ?? colors.text }));
}

export function noData(box: Box): string {
  const middle = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  return text('No data', { ...middle, 'text-anchor': 'middle', 'font-size': 14, fill: colors.faint });
}

function drawLine({ values, color }: Line, scale: Scale, plot: Box): string {
  const apart = plot.width / (values.length - 1);
  const places = values.map((value, at) =>
    value === null ? undefined : ([plot.x + at * apart, yOf(value, scale, plot)] as const),
  );
  return line(places, plot.y + plot.height, color, 0.1);
}

function yOf(value: number, { from, to }: Scale, plot: Box): number {
  return plot.y + plot.height * (1 - (value - from) / (to - from));
}

function valueAxisLabels(scale: Scale, labels: readonly string[], plot: Box): string {
  return scale.ticks
    .map((tick, at) => {
      const y = yOf(tick, scale, plot);
      const right = { x: plot.x - 6, y: y + 4, 'text-anchor': 'end', fill: colors.faint };
      return horizontal(y, plot, { stroke: colors.grid }) + text(labels[at] ?? '', right);
    })
    .join('');
}

/** A label at every full minute, in UTC. */
function timeAxisLabels({ start, step, steps }: Recording, plot: Box): string {
  const length = step * (steps - 1);
  const minutes = Array.from(
    { length: Math.floor(length / 60) },
    (_, at) => (Math.ceil(start / 60) + at) * 60,
  );
  return minutes
    .map((minute) => {
      const x = plot.x + ((minute - start) / length) * plot.width;
      const bottom = plot.y + plot.height;
      const label = { x, y: bottom + 16, 'text-anchor': 'middle', fill: colors.faint };
      return (
        element('path', { d: `M${x},${plot.y}V${bottom}`, stroke: colors.grid }) +
        text(clockTime(minute).slice(0, 5), label)
      );
    })
    .join('');
}

/** `HH:MM:SS`, UTC. */
export function clockTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(11, 19);
}

/** Dashed lines in the color of the range above. As in Grafana, the axis does not extend to limits beyond the values. */
function limits({ redFrom, redBelow }: PanelModel, scale: Scale, plot: Box): string {
  return [[redBelow, colors.green] as const, [redFrom, colors.red] as const]
    .map(([limit, stroke]) => {
      if (limit === undefined || limit < scale.from || limit > scale.to) return '';
      return horizontal(yOf(limit, scale, plot), plot, { stroke, 'stroke-dasharray': '8 6' });
    })
    .join('');
}

function horizontal(y: number, { x, width }: Box, attributes: Readonly<Record<string, string>>): string {
  return element('line', { x1: x, x2: x + width, y1: y, y2: y, ...attributes });
}
