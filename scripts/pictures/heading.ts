import type { DashboardModel } from '../dashboards/model.ts';
import type { Recording } from './recorded.ts';
import { element, text, textWidth } from './svg.ts';
import { colors, sizes } from './theme.ts';
import { clockTime } from './timeseries.ts';

const lineHeight = 18;
const variableValues = [
  ['Data source', 'Prometheus'],
  ['Namespace', 'All'],
  ['Release', 'All'],
  ['Environment', 'All'],
  ['Operation', 'All'],
] as const;
const source = 'Drawn from recorded data by scripts/draw-dashboards.ts, not a Grafana screenshot.';

/** Above the panels: title, time range and variables as in Grafana, then how the data was recorded. */
export function heading(model: DashboardModel, recording: Recording): { height: number; drawing: string } {
  const { margin, width } = sizes;
  const until = recording.start + recording.step * (recording.steps - 1);
  const time = `${clockTime(recording.start)} to ${clockTime(until)} UTC`;
  const lines = 2 + Math.ceil(recording.events.length / 2);
  const top = 92;
  return {
    height: top + lines * lineHeight + 6,
    drawing: [
      text(`Dashboards › ${model.title}`, { x: margin + 4, y: 30, 'font-size': 16, fill: colors.text }),
      text(time, { x: width - margin - 4, y: 30, 'text-anchor': 'end', fill: colors.text }),
      variables(),
      text(source, { x: margin + 4, y: top, fill: colors.note }),
      text(recordingMethod(recording), { x: margin + 4, y: top + lineHeight, fill: colors.faint }),
      story(recording, top + 2 * lineHeight),
    ].join(''),
  };
}

function variables(): string {
  let x = sizes.margin;
  return variableValues
    .map(([label, value]) => {
      const before = textWidth(label, sizes.letters) + 12;
      const width = before + textWidth(value, sizes.letters) + 12;
      const frame = { x, y: 44, width, height: 24, rx: 2, fill: colors.panel, stroke: colors.border };
      const drawn = [
        element('rect', frame),
        text(label, { x: x + 8, y: 60, fill: colors.faint }),
        text(value, { x: x + before, y: 60, fill: colors.text }),
      ];
      x += width + sizes.gap;
      return drawn.join('');
    })
    .join('');
}

function recordingMethod({ rateInterval, step }: Recording): string {
  return (
    'Countersign, gateway simulator and Vault stub on one machine; a real Prometheus, one scrape per second, ' +
    `rates over ${rateInterval}, one value every ${step} s.`
  );
}

/** The recorded events, in two columns. */
function story({ start, events }: Recording, top: number): string {
  const half = Math.ceil(events.length / 2);
  return events
    .map(({ at, what }, index) => {
      const x = sizes.margin + 4 + (index < half ? 0 : sizes.width / 2);
      const y = top + (index % half) * lineHeight;
      return text(`${clockTime(start + at)} ${what}`, { x, y, fill: colors.faint });
    })
    .join('');
}
