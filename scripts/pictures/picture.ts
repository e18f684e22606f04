import { type Placed, place } from '../dashboards/layout.ts';
import type { DashboardModel, PanelModel } from '../dashboards/model.ts';
import { heading } from './heading.ts';
import type { Recording } from './recorded.ts';
import { stat } from './stat.ts';
import { element, fitted, text } from './svg.ts';
import { type Box, colors, fontFamily, sizes } from './theme.ts';
import { timeseries } from './timeseries.ts';

const titleHeight = 38;

/**
 * Draws a dashboard as one SVG, with the layout, titles, units, limits and legends of its Grafana file and the data of
 * the recording.
 *
 * @throws Error if the recording has other queries than the dashboard
 */
export function picture(model: DashboardModel, recording: Recording): string {
  const placed = place(model.sections);
  const head = heading(model, recording);
  const bottom = Math.max(...placed.map((one) => bottomOf(boxOf(one, head.height))));
  const { width, margin, letters } = sizes;
  const height = bottom + margin;
  const drawn = element(
    'svg',
    {
      xmlns: 'http://www.w3.org/2000/svg',
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: 'img',
      'font-family': fontFamily,
      'font-size': letters,
    },
    [
      element('title', {}, [model.title]),
      element('rect', { width, height, fill: colors.page }),
      head.drawing,
      ...placed.map((one) => draw(one, recording, boxOf(one, head.height))),
    ].map((part) => `${part}\n`),
  );
  return `${drawn}\n`;
}

function boxOf({ gridPos: { x, y, w, h } }: Placed, top: number): Box {
  const { width, margin, gap, cell } = sizes;
  const column = (width - 2 * margin - 23 * gap) / 24;
  return {
    x: margin + x * (column + gap),
    y: top + y * (cell + gap),
    width: w * column + (w - 1) * gap,
    height: h * cell + (h - 1) * gap,
  };
}

function bottomOf({ y, height }: Box): number {
  return y + height;
}

function draw({ item }: Placed, recording: Recording, box: Box): string {
  if ('panels' in item) {
    return text(`⌄ ${item.title}`, { x: box.x + 4, y: box.y + 18, 'font-size': 15, fill: colors.text });
  }
  const { padding } = sizes;
  const inside: Box = {
    x: box.x + padding,
    y: box.y + titleHeight,
    width: box.width - 2 * padding,
    height: box.height - titleHeight - padding,
  };
  return element('g', {}, [frame(item.title, box), content(item, recording, inside)]);
}

function frame(title: string, { x, y, width, height }: Box): string {
  const { padding } = sizes;
  const shown = fitted(title, 14, width - 2 * padding);
  return (
    element('rect', { x, y, width, height, rx: 2, fill: colors.panel, stroke: colors.border }) +
    text(shown, { x: x + padding, y: y + 20, 'font-size': 14, 'font-weight': 500, fill: colors.text })
  );
}

function content(panel: PanelModel, recording: Recording, box: Box): string {
  const recorded = recording.panels[panel.title] ?? [];
  const isSame =
    panel.queries.map(({ expr }) => expr).join('\n') === recorded.map(({ expr }) => expr).join('\n');
  if (!isSame) throw new Error(`"${panel.title}": its queries differ from the recorded ones`);
  return panel.kind === 'stat' ? stat(panel, recorded, box) : timeseries(panel, recorded, recording, box);
}
