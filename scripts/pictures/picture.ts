import { type EChartsOption, init, setPlatformAPI } from 'echarts';
import { place } from '../dashboards/layout.ts';
import type { DashboardModel, PanelModel } from '../dashboards/model.ts';
import { linesOf, type Placed, stat, table, timeseries } from './panels.ts';
import type { Recording } from './recorded.ts';
import { type Box, characterWidth, colors, fontFamily, sizes, theme, whole } from './theme.ts';

// Which font a reader has is unknown: as wide as the widest of the list, so that nothing of a legend overlaps.
setPlatformAPI({
  measureText: (text, font = '') => {
    const [, size = 12] = /([\d.]+)px/.exec(font) ?? [];
    return { width: text.length * Number(size) * characterWidth };
  },
});

const source = 'Drawn from recorded data by scripts/draw-dashboards.ts, not a Grafana screenshot.';
const variables = 'Data source: Prometheus.   Namespace, release, environment, operation: all.';

/**
 * Draws a dashboard as one SVG, with the layout, titles, units, limits and legends of its Grafana file and the data of
 * the recording.
 *
 * @throws Error if the recording has other queries than the dashboard
 */
export function picture(model: DashboardModel, recording: Recording): string {
  const { width, margin, line } = sizes;
  const head = heading(model, recording);
  const top = margin + (head.length + 1) * line;
  const placed = place(model.sections).map(({ item, gridPos }) => ({ item, box: boxOf(gridPos, top) }));
  const height = Math.max(...placed.map(({ box }) => box.y + box.height)) + margin;
  const charts: readonly Placed[] = [
    [{ title: head }, { x: margin + 4, y: margin, width: width - 2 * margin, height: top }],
    ...placed.flatMap(({ item, box }) =>
      'panels' in item ? section(item.title, box) : panel(item, recording, box),
    ),
  ];
  return `<svg xmlns="http://www.w3.org/2000/svg" role="img" font-family="${fontFamily}" width="${width}" height="${height}">
<rect width="100%" height="100%" fill="${colors.page}"/>
${charts.map(svgOf).join('\n')}
</svg>
`;
}

/** Title, time range and variables as in Grafana, then how the data was recorded and what happened. */
function heading(model: DashboardModel, { start, step, steps, rateInterval, events }: Recording) {
  const method =
    'Countersign, gateway simulator and Vault stub on one machine; a real Prometheus, one scrape per second, ' +
    `rates over ${rateInterval}, one value every ${step} s.`;
  const range = `${clockTime(start)} to ${clockTime(start + step * (steps - 1))} UTC.   ${variables}`;
  const texts: readonly (readonly [text: string, color: string, fontSize?: number])[] = [
    [`Dashboards › ${model.title}`, colors.text, 16],
    [range, colors.text],
    [source, colors.note],
    [method, colors.faint],
    ...events.map(({ at, what }) => [`${clockTime(start + at)} ${what}`, colors.faint] as const),
  ];
  return texts.map(([text, color, fontSize = 12], at) => {
    return { text, top: at * sizes.line, textStyle: { color, fontSize } };
  });
}

const section = (title: string, box: Box): Placed[] => [
  [{ title: { text: `⌄ ${title}`, left: 4, top: 4, textStyle: { fontSize: 15 } } }, box],
];

function panel(model: PanelModel, recording: Recording, box: Box): Placed[] {
  const { padding, title } = sizes;
  const recorded = recording.panels[model.title] ?? [];
  const queries = Object.values(model.queries);
  if (queries.join('\n') !== recorded.map(({ expr }) => expr).join('\n'))
    throw new Error(`"${model.title}": its queries differ from the recorded ones`);
  const lines = linesOf(model, recorded);
  const inside: Box = {
    x: box.x + padding,
    y: box.y + title,
    width: box.width - 2 * padding,
    height: box.height - title - padding,
  };
  const frame: EChartsOption = {
    grid: { ...whole, show: true, backgroundColor: colors.panel, borderColor: colors.border },
    title: { text: model.title, left: padding, top: padding },
  };
  const noData: Placed = [{ title: { text: 'No data', left: 'center' } }, inside];
  if (lines.length === 0) return [[frame, box], noData];
  if (model.kind === 'table') return [[frame, box], ...table(model, recorded, inside)];
  const draw = model.kind === 'stat' ? stat : timeseries;
  return [[frame, box], ...draw(model, lines, recording, inside)];
}

function boxOf({ x, y, w, h }: Record<'x' | 'y' | 'w' | 'h', number>, top: number): Box {
  const { width, margin, gap, cell } = sizes;
  const column = (width - 2 * margin - 23 * gap) / 24;
  return {
    x: margin + x * (column + gap),
    y: top + y * (cell + gap),
    width: w * column + (w - 1) * gap,
    height: h * cell + (h - 1) * gap,
  };
}

/** `HH:MM:SS`, UTC. */
function clockTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(11, 19);
}

/**
 * A chart without what differs from run to run (the library numbers all charts of a process), concerns a mouse or is
 * not seen, and with whole pixels in paths. The picture has the font.
 */
function svgOf([option, { x, y, width, height }]: Placed): string {
  const chart = init(null, theme, { renderer: 'svg', ssr: true, width, height });
  chart.setOption({ ...option, useUTC: true, animation: false });
  const svg = chart.renderToSVGString();
  chart.dispose();
  const rounded = (path: string): string =>
    path.replaceAll(/\d+\.\d+/g, (number) => String(Math.round(Number(number))));
  return svg
    .replace(/<svg[^>]*>/, `<svg x="${x}" y="${y}" width="${width}" height="${height}" overflow="visible">`)
    .replaceAll(/<path[^>]* fill-opacity="0"[^>]*><\/path>\n|<(style|defs)[^]*?<\/\1>\n/g, '')
    .replaceAll(/font-family:[^;]*;| (class|clip-path|pointer-events|xml:space|ecmeta_\w+)="[^"]*"/g, '')
    .replaceAll(/ d="[^"]*"/g, rounded);
}
