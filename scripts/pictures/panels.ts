import type { EChartsOption, LineSeriesOption } from 'echarts';
import type { PanelModel } from '../dashboards/model.ts';
import type { RecordedQuery, Recording } from './recorded.ts';
import { type Box, characterWidth, colors, whole } from './theme.ts';
import { format, multipleFor } from './units.ts';

/** A chart and its place in the picture. */
export type Placed = readonly [option: EChartsOption, box: Box];

type Line = ReturnType<typeof linesOf>[number];

/** Pixels. */
const legend = { row: 20, mark: 14, gap: 8, text: 5, character: 12 * characterWidth };

/** The series of a panel that have a value, named by its legend templates. */
export function linesOf({ queries }: PanelModel, recorded: readonly RecordedQuery[]) {
  return Object.keys(queries)
    .flatMap((template, at) =>
      (recorded[at]?.series ?? []).map(({ labels, values }) => ({
        name: template.replaceAll(/\{\{(\w+)\}\}/g, (_all, label: string) => labels[label] ?? ''),
        values,
      })),
    )
    .filter(({ values }) => values.some((value) => value !== null));
}

export function timeseries(panel: PanelModel, lines: readonly Line[], span: Recording, box: Box): Placed[] {
  const largest = Math.max(...lines.flatMap(({ values }) => values.map(Number)));
  const [suffix, factor] = multipleFor(panel.unit, largest);
  const legendHeight = legend.row * legendRows(lines, box.width);
  // Filled areas of many lines would hide each other.
  const opacity = lines.length > 2 ? 0 : 0.1;
  const option: EChartsOption = {
    grid: {
      left: 0,
      right: 0,
      top: 0,
      bottom: legendHeight + 6,
      outerBoundsMode: 'same',
      outerBoundsContain: 'axisLabel',
    },
    xAxis: { ...timeAxis(span), axisLabel: { formatter: '{HH}:{mm}' } },
    yAxis: {
      ...valueAxis(panel),
      splitNumber: 4,
      axisLabel: { formatter: (value: number) => `${Number(value.toPrecision(6))}${suffix}` },
    },
    legend: {
      left: 0,
      top: box.height - legendHeight,
      width: box.width,
      itemGap: legend.gap,
      itemWidth: legend.mark,
      itemHeight: 4,
    },
    series: lines.map(({ name, values }, at) => ({
      ...lineOf(values, span, factor, opacity),
      name,
      ...(at === 0 && limitsOf(panel, factor)),
    })),
  };
  return [[option, box]];
}

/** The last value of each series as a number, side by side, each above a sparkline. */
export function stat(panel: PanelModel, lines: readonly Line[], span: Recording, box: Box): Placed[] {
  const width = box.width / lines.length;
  return lines.map(({ name, values }, at) => {
    const last = values.findLast((value) => value !== null) ?? 0;
    const text = format(panel.unit, last, 3);
    const color = colorOf(last, panel);
    const size = Math.min(44, ((width - legend.gap) / text.length) * 1.6);
    const option: EChartsOption = {
      title: [
        { text: lines.length === 1 ? '' : name, left: 'center', textStyle: { fontSize: 12 } },
        { text, left: 'center', top: box.height / 2 - size * 0.7, textStyle: { color, fontSize: size } },
      ],
      grid: { ...whole, top: (box.height * 2) / 3 },
      xAxis: { ...timeAxis(span), show: false },
      yAxis: { ...valueAxis(panel), show: false },
      series: [{ ...lineOf(values, span, 1, 0.15), color }],
    };
    return [option, { ...box, x: box.x + at * width, width: width - legend.gap }];
  });
}

/** A row for each combination of labels with the last value of each query, the largest first value first. */
export function table(
  { queries, ...panel }: PanelModel,
  recorded: readonly RecordedQuery[],
  box: Box,
): Placed[] {
  const rows = new Map<string, { labels: Record<string, string>; values: string[] }>();
  for (const [at, { series }] of recorded.entries()) {
    for (const { labels, values } of series) {
      const row = rows.get(JSON.stringify(labels)) ?? { labels, values: [] };
      row.values[at] = String(values.findLast((value) => value !== null) ?? '');
      rows.set(JSON.stringify(labels), row);
    }
  }
  const all = [...rows.values()].sort((a, b) => Number(b.values[0]) - Number(a.values[0]));
  const names = Object.keys(all[0]?.labels ?? {});
  const titles = Object.keys(queries);
  const cells = [
    [...names, ...titles],
    ...all.map(({ labels, values }) => [
      ...names.map((name) => labels[name] ?? ''),
      ...titles.map((_title, at) => values[at] ?? ''),
    ]),
  ];
  const width = box.width / (names.length + titles.length);
  const title = cells.flatMap((row, y) =>
    row.map((text, x) => {
      const isFirst = y > 0 && x === names.length;
      const color =
        y === 0 ? colors.faint : isFirst ? colorOf(Number(text), { queries, ...panel }) : colors.text;
      return { text, left: x * width, top: y * legend.row, textStyle: { color, fontSize: 12 } };
    }),
  );
  return [[{ title }, box]];
}

/** Red beyond the limits. */
function colorOf(
  value: number,
  { redFrom = Number.POSITIVE_INFINITY, redBelow = Number.NEGATIVE_INFINITY }: PanelModel,
): string {
  return value >= redFrom || value < redBelow ? colors.red : colors.green;
}

/** Starts at zero unless the limits allow less. */
const valueAxis = ({ redBelow = 0 }: PanelModel) =>
  ({ type: 'value', ...(redBelow >= 0 && { min: 0 }) }) as const;

/** The limits as dashed lines in the color of the range above. */
function limitsOf({ redFrom, redBelow }: PanelModel, factor: number): Pick<LineSeriesOption, 'markLine'> {
  const lines = [[redBelow, colors.green] as const, [redFrom, colors.red] as const].flatMap(
    ([limit, color]) =>
      limit === undefined ? [] : [{ yAxis: limit / factor, lineStyle: { color, type: [8, 6], width: 1 } }],
  );
  return { markLine: { silent: true, symbol: 'none', label: { show: false }, data: lines } };
}

function lineOf(
  values: Line['values'],
  { start, step }: Recording,
  factor: number,
  opacity: number,
): LineSeriesOption {
  return {
    type: 'line',
    silent: true,
    ...(opacity > 0 && { areaStyle: { opacity } }),
    data: values.map((value, at) => [1000 * (start + at * step), value === null ? '-' : value / factor]),
  };
}

const timeAxis = ({ start, step, steps }: Recording) =>
  ({
    type: 'time',
    min: 1000 * start,
    max: 1000 * (start + step * (steps - 1)),
    minInterval: 60_000,
  }) as const;

/** Estimated: what a legend needs is known only after it has been drawn. */
function legendRows(lines: readonly Line[], width: number): number {
  let [rows, x] = [1, 0];
  for (const { name } of lines) {
    const needed = legend.mark + legend.text + name.length * legend.character + legend.gap;
    if (x > 0 && x + needed > width) [rows, x] = [rows + 1, 0];
    x += needed;
  }
  return rows;
}
