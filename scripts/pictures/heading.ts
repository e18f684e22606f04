import type { DashboardModel } from '../dashboards/model.ts';
import type { Recording } from './recorded.ts';
import { element, text, textWidth } from './svg.ts';
import { colours, sizes } from './theme.ts';
import { clockTime } from './timeseries.ts';

const lineHeight = 18;
const pickers = [
  ['Data source', 'Prometheus'],
  ['Namespace', 'All'],
  ['Release', 'All'],
  ['Environment', 'All'],
  ['Operation', 'All'],
] as const;
const source = 'Drawn from recorded data by scripts/draw-dashboards.ts, not a Grafana screenshot.';

/** What stands above the panels: title, time and variables as in Grafana, then what the picture is made from. */
export function heading(model: DashboardModel, recording: Recording): { height: number; drawing: string } {
  const { margin, width } = sizes;
  const until = recording.start + recording.step * (recording.steps - 1);
  const time = `${clockTime(recording.start)} to ${clockTime(until)} UTC`;
  const lines = 2 + Math.ceil(recording.events.length / 2);
  const top = 92;
  return {
    height: top + lines * lineHeight + 6,
    drawing: [
      text(`Dashboards › ${model.title}`, { x: margin + 4, y: 30, 'font-size': 16, fill: colours.text }),
      text(time, { x: width - margin - 4, y: 30, 'text-anchor': 'end', fill: colours.text }),
      boxes(),
      text(source, { x: margin + 4, y: top, fill: colours.note }),
      text(measure(recording), { x: margin + 4, y: top + lineHeight, fill: colours.faint }),
      story(recording, top + 2 * lineHeight),
    ].join(''),
  };
}

function boxes(): string {
  let x = sizes.margin;
  return pickers
    .map(([label, value]) => {
      const before = textWidth(label, sizes.letters) + 12;
      const width = before + textWidth(value, sizes.letters) + 12;
      const frame = { x, y: 44, width, height: 24, rx: 2, fill: colours.panel, stroke: colours.border };
      const drawn = [
        element('rect', frame),
        text(label, { x: x + 8, y: 60, fill: colours.faint }),
        text(value, { x: x + before, y: 60, fill: colours.text }),
      ];
      x += width + sizes.gap;
      return drawn.join('');
    })
    .join('');
}

function measure({ rateInterval, step }: Recording): string {
  return (
    'Countersign, gateway simulator and Vault stub on one machine; a real Prometheus, one scrape a second, ' +
    `rates over ${rateInterval}, one value every ${step} s.`
  );
}

/** What happened when, in two columns. */
function story({ start, events }: Recording, top: number): string {
  const half = Math.ceil(events.length / 2);
  return events
    .map(({ at, what }, index) => {
      const x = sizes.margin + 4 + (index < half ? 0 : sizes.width / 2);
      const y = top + (index % half) * lineHeight;
      return text(`${clockTime(start + at)} ${what}`, { x, y, fill: colours.faint });
    })
    .join('');
}
