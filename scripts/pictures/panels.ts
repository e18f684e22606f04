import type { GraphicComponentOption, LineSeriesOption } from 'echarts';
import type { PanelModel } from '../dashboards/model.ts';
import type { RecordedQuery, Recording } from './recorded.ts';
import { type Box, colors, palette, sizes } from './theme.ts';
import { format, multipleFor } from './units.ts';

/** A grid of the chart, with its only axes. */
interface Plot {
  readonly grid: object;
  readonly xAxis: object;
  readonly yAxis: object;
  readonly series: readonly LineSeriesOption[];
  readonly legend?: object;
}

/** What one panel adds to the chart. */
export interface Parts {
  readonly plots: readonly Plot[];
  readonly graphic: readonly GraphicComponentOption[];
}

interface Line {
  readonly name: string;
  readonly values: readonly (number | null)[];
}

/** Pixels. */
const row = { height: 20, before: 6 };
const entry = { mark: 14, gap: 8, text: 5, character: 6.6 };
const hidden = { show: false };

/** The series of a panel that have a value, named by its legend templates. */
export function linesOf({ queries }: PanelModel, recorded: readonly RecordedQuery[]): Line[] {
  return queries
    .flatMap(({ legend }, at) =>
      (recorded[at]?.series ?? []).map(({ labels, values }) => ({
        name: legend.replaceAll(/\{\{(\w+)\}\}/g, (_all, label: string) => labels[label] ?? ''),
        values,
      })),
    )
    .filter(({ values }) => values.some((value) => value !== null));
}

export function timeseries(panel: PanelModel, lines: readonly Line[], span: Recording, box: Box): Parts {
  const largest = Math.max(...lines.flatMap(({ values }) => values.map(Number)));
  const [suffix, factor] = multipleFor(panel.unit, largest);
  const legendHeight = row.before + row.height * legendRows(lines, box.width);
  const bottom = box.y + box.height - legendHeight;
  const { minimum, limits } = rangeOf(panel, factor);
  const plot = { left: box.x, top: box.y, width: box.width, height: box.height - legendHeight };
  const axisLabel = { color: colors.faint };
  // Filled areas of many lines would hide each other.
  const opacity = lines.length > 2 ? 0 : 0.1;
  return {
    graphic: [],
    plots: [
      {
        grid: { ...plot, outerBoundsMode: 'same', outerBoundsContain: 'axisLabel' },
        xAxis: { ...timeAxis(span), axisLabel: { ...axisLabel, formatter: '{HH}:{mm}' } },
        yAxis: {
          type: 'value',
          splitNumber: 4,
          min: minimum,
          splitLine: { lineStyle: { color: colors.grid } },
          axisLabel: {
            ...axisLabel,
            formatter: (value: number) => `${Number(value.toPrecision(6))}${suffix}`,
          },
        },
        legend: legend(lines, { ...box, y: bottom + row.before }),
        series: lines.map(({ name, values }, at) => ({
          ...lineOf(values, span, factor, palette[at % palette.length] ?? colors.text, opacity),
          name,
          ...(at === 0 ? limits : {}),
        })),
      },
    ],
  };
}

/** The last value of each series as a number, side by side, each above a sparkline. */
export function stat(panel: PanelModel, lines: readonly Line[], span: Recording, box: Box): Parts {
  const width = box.width / lines.length;
  const drawn = lines.map(({ name, values }, at) => {
    const last = values.findLast((value) => value !== null) ?? 0;
    const text = format(panel.unit, last, 3);
    const color = colorOf(last, panel);
    const place = { left: box.x + at * width, width: width - sizes.gap };
    const style = { x: place.left + place.width / 2, align: 'center' } as const;
    const size = Math.min(44, (place.width / text.length) * 1.6);
    return {
      plot: {
        grid: { ...place, top: box.y + (box.height * 2) / 3, height: box.height / 3 },
        xAxis: { ...timeAxis(span), ...hidden },
        yAxis: { type: 'value', min: rangeOf(panel, 1).minimum, ...hidden },
        series: [lineOf(values, span, 1, color, 0.15)],
      },
      graphic: [
        label(lines.length === 1 ? '' : name, { ...style, y: box.y, fill: colors.text }),
        label(text, { ...style, y: box.y + box.height / 2 - size * 0.7, fill: color, size }),
      ],
    };
  });
  return { plots: drawn.map(({ plot }) => plot), graphic: drawn.flatMap(({ graphic }) => graphic) };
}

/** Where a line of text begins, and how it looks. */
interface Style {
  readonly x: number;
  /** Of its top. */
  readonly y: number;
  readonly fill: string;
  readonly align?: 'left' | 'center' | 'right';
  readonly size?: number;
}

export function label(
  text: string,
  { x, y, fill, align = 'left', size = 12 }: Style,
): GraphicComponentOption {
  return { type: 'text', x, y, silent: true, style: { text, fill, align, fontSize: size } };
}

/** Red beyond the limits. */
function colorOf(
  value: number,
  { redFrom = Number.POSITIVE_INFINITY, redBelow = Number.NEGATIVE_INFINITY }: PanelModel,
): string {
  return value >= redFrom || value < redBelow ? colors.red : colors.green;
}

/** The limits as dashed lines in the color of the range above. The axis starts at zero unless they allow less. */
function rangeOf(
  { redFrom, redBelow }: PanelModel,
  factor: number,
): { minimum: number | undefined; limits: Pick<LineSeriesOption, 'markLine'> } {
  const lines = [[redBelow, colors.green] as const, [redFrom, colors.red] as const].flatMap(
    ([limit, color]) =>
      limit === undefined ? [] : [{ yAxis: limit / factor, lineStyle: { color, type: [8, 6], width: 1 } }],
  );
  const markLine = { silent: true, symbol: 'none', label: hidden, data: lines };
  return { minimum: (redBelow ?? 0) < 0 ? undefined : 0, limits: lines.length === 0 ? {} : { markLine } };
}

function lineOf(
  values: Line['values'],
  { start, step }: Recording,
  factor: number,
  color: string,
  opacity: number,
): LineSeriesOption {
  return {
    type: 'line',
    showSymbol: false,
    silent: true,
    color,
    lineStyle: { width: 1 },
    ...(opacity > 0 ? { areaStyle: { opacity } } : {}),
    data: values.map((value, at) => [1000 * (start + at * step), value === null ? '-' : value / factor]),
  };
}

function timeAxis({ start, step, steps }: Recording): object {
  return {
    type: 'time',
    min: 1000 * start,
    max: 1000 * (start + step * (steps - 1)),
    minInterval: 60_000,
    splitLine: { show: true, lineStyle: { color: colors.grid } },
    axisLine: hidden,
    axisTick: hidden,
  };
}

function legend(lines: readonly Line[], { x, y, width }: Box): object {
  return {
    left: x,
    top: y,
    width,
    padding: 0,
    itemGap: entry.gap,
    itemWidth: entry.mark,
    itemHeight: 4,
    icon: 'rect',
    selectedMode: false,
    textStyle: { color: colors.text },
    data: lines.map(({ name }) => name),
  };
}

/** Estimated: what a legend needs is known only after it has been drawn. */
function legendRows(lines: readonly Line[], width: number): number {
  let [rows, x] = [1, 0];
  for (const { name } of lines) {
    const needed = entry.mark + entry.text + name.length * entry.character + entry.gap;
    if (x > 0 && x + needed > width) [rows, x] = [rows + 1, 0];
    x += needed;
  }
  return rows;
}
