import { type GraphicComponentOption, init } from 'echarts';
import { type Placed, place } from '../dashboards/layout.ts';
import type { DashboardModel, PanelModel } from '../dashboards/model.ts';
import { label, linesOf, type Parts, stat, timeseries } from './panels.ts';
import type { Recording } from './recorded.ts';
import { type Box, colors, fontFamily, sizes } from './theme.ts';

const source = 'Drawn from recorded data by scripts/draw-dashboards.ts, not a Grafana screenshot.';
const variables = 'Data source: Prometheus.   Namespace, release, environment, operation: all.';

/**
 * Draws a dashboard as one SVG, with the layout, titles, units, limits and legends of its Grafana file and the data of
 * the recording.
 *
 * @throws Error if the recording has other queries than the dashboard
 */
export function picture(model: DashboardModel, recording: Recording): string {
  const head = heading(model, recording);
  const drawn = place(model.sections).map((placed) => {
    const box = boxOf(placed, (head.length + 1) * sizes.line);
    const { item } = placed;
    return { box, ...('panels' in item ? section(item.title, box) : panel(item, recording, box)) };
  });
  const plots = drawn.flatMap((one) => one.plots);
  const height = Math.max(...drawn.map(({ box }) => box.y + box.height)) + sizes.margin;
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: sizes.width, height });
  chart.setOption({
    grid: plots.map(({ grid }) => grid),
    xAxis: plots.map(({ xAxis }, gridIndex) => ({ ...xAxis, gridIndex })),
    yAxis: plots.map(({ yAxis }, gridIndex) => ({ ...yAxis, gridIndex })),
    legend: plots.flatMap(({ legend }) => legend ?? []),
    series: plots.flatMap(({ series }, axis) =>
      series.map((one) => ({ ...one, xAxisIndex: axis, yAxisIndex: axis })),
    ),
    graphic: [...head, ...drawn.flatMap(({ graphic }) => graphic)],
    useUTC: true,
    animation: false,
    backgroundColor: colors.page,
    textStyle: { fontFamily },
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return `${compact(svg)}\n`;
}

/** Title, time range and variables as in Grafana, then how the data was recorded and what happened. */
function heading(
  model: DashboardModel,
  { start, step, steps, rateInterval, events }: Recording,
): GraphicComponentOption[] {
  const method =
    'Countersign, gateway simulator and Vault stub on one machine; a real Prometheus, one scrape per second, ' +
    `rates over ${rateInterval}, one value every ${step} s.`;
  const texts: readonly (readonly [text: string, fill: string, size?: number])[] = [
    [`Dashboards › ${model.title}`, colors.text, 16],
    [`${clockTime(start)} to ${clockTime(start + step * (steps - 1))} UTC.   ${variables}`, colors.text],
    [source, colors.note],
    [method, colors.faint],
    ...events.map(({ at, what }) => [`${clockTime(start + at)} ${what}`, colors.faint] as const),
  ];
  return texts.map(([text, fill, size = 12], at) =>
    label(text, { x: sizes.margin + 4, y: sizes.margin + at * sizes.line, fill, size }),
  );
}

function section(title: string, { x, y }: Box): Parts {
  return { plots: [], graphic: [label(`⌄ ${title}`, { x: x + 4, y: y + 4, fill: colors.text, size: 15 })] };
}

function panel(model: PanelModel, recording: Recording, box: Box): Parts {
  const { padding, title } = sizes;
  const recorded = recording.panels[model.title] ?? [];
  const queries = [model.queries, recorded].map((list) => list.map(({ expr }) => expr).join('\n'));
  if (queries[0] !== queries[1])
    throw new Error(`"${model.title}": its queries differ from the recorded ones`);
  const lines = linesOf(model, recorded);
  const inside: Box = {
    x: box.x + padding,
    y: box.y + title,
    width: box.width - 2 * padding,
    height: box.height - title - padding,
  };
  const frame: GraphicComponentOption[] = [
    {
      type: 'rect',
      silent: true,
      z: -1,
      shape: { ...box, r: 2 },
      style: { fill: colors.panel, stroke: colors.border },
    },
    label(model.title, { x: inside.x, y: box.y + padding, fill: colors.text, size: 14 }),
  ];
  if (lines.length === 0) return { plots: [], graphic: [...frame, noData(inside)] };
  const { plots, graphic } = (model.kind === 'stat' ? stat : timeseries)(model, lines, recording, inside);
  return { plots, graphic: [...frame, ...graphic] };
}

const noData = ({ x, y, width, height }: Box): GraphicComponentOption =>
  label('No data', { x: x + width / 2, y: y + height / 2, fill: colors.faint, align: 'center' });

function boxOf({ gridPos: { x, y, w, h } }: Placed, top: number): Box {
  const { width, margin, gap, cell } = sizes;
  const column = (width - 2 * margin - 23 * gap) / 24;
  return {
    x: margin + x * (column + gap),
    y: top + margin + y * (cell + gap),
    width: w * column + (w - 1) * gap,
    height: h * cell + (h - 1) * gap,
  };
}

/** `HH:MM:SS`, UTC. */
function clockTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(11, 19);
}

/**
 * Without what differs from run to run (the library numbers all charts of a process) or concerns a mouse, the font once,
 * and whole pixels in paths.
 */
function compact(svg: string): string {
  const whole = (path: string): string =>
    path.replaceAll(/\d+\.\d+/g, (number) => String(Math.round(Number(number))));
  return svg
    .replace('<svg', `<svg role="img" font-family="${fontFamily}"`)
    .replaceAll(
      /font-family:[^;]*;| class="[^"]*"| pointer-events="\w+"| xml:space="preserve"|\bzr\d+-|<style[^]*?<\/style>\s*/g,
      '',
    )
    .replaceAll(/ d="[^"]*"/g, whole);
}
