import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { dashboards } from '../../scripts/dashboards/dashboards.ts';
import type { DashboardModel, PanelModel } from '../../scripts/dashboards/model.ts';
import { picture } from '../../scripts/pictures/picture.ts';
import { type Recording, readRecording } from '../../scripts/pictures/recorded.ts';
import { format } from '../../scripts/pictures/units.ts';

const pictures = Object.entries(dashboards).map(([file, model]) => ({
  file,
  model,
  svg: readFileSync(`deploy/grafana/pictures/${file.replace('.json', '.svg')}`, 'utf8'),
}));

describe.each(pictures)('the picture of $file', ({ file, model, svg }) => {
  it('is up to date with the recording (npm run generate)', () => {
    expect(picture(model, readRecording(file))).toBe(svg);
  });

  it('has every section and every panel', () => {
    const titles = model.sections.flatMap(({ title, panels }) => [
      `⌄ ${title}`,
      ...panels.map((one) => one.title),
    ]);
    for (const title of titles) {
      expect(svg.split(`>${title.replaceAll("'", '&#39;')}</text>`)).toHaveLength(2);
    }
  });

  it('has data in every panel', () => {
    expect(svg).not.toContain('No data');
  });

  it('states that it is not a screenshot', () => {
    expect(svg).toContain(
      'Drawn from recorded data by scripts/draw-dashboards.ts, not a Grafana screenshot.',
    );
  });

  it('is at most 320 KiB, without scripts and references to other files', () => {
    expect(Buffer.byteLength(svg)).toBeLessThan(320 * 1024);
    expect(svg.replaceAll(/ xmlns(:xlink)?="[^"]*"|url\(#c\d+\)/g, '')).not.toMatch(
      /href|url\(|https?:|<(script|image|style|foreignObject)/i,
    );
  });
});

describe('a picture', () => {
  const panel: PanelModel = {
    title: 'Rate',
    purpose: 'Incident: some.',
    description: 'Some rate.',
    unit: 'reqps',
    redFrom: 3,
    queries: { '{{name}} of <b>': 'up' },
  };
  const dashboard: DashboardModel = {
    uid: 'one',
    title: 'One',
    description: 'One panel.',
    sections: [{ title: 'All', panels: [panel] }],
  };
  const recording: Recording = {
    start: 1_800_000_000,
    step: 30,
    steps: 5,
    rateInterval: '20s',
    events: [{ at: 60, what: 'something & more' }],
    panels: { Rate: [{ expr: 'up', series: [{ labels: { name: 'ours' }, values: [0, 4, null, 2, 2] }] }] },
  };
  const withStat = (values: (number | null)[]) =>
    picture(
      { ...dashboard, sections: [{ title: 'All', panels: [{ ...panel, kind: 'stat' }] }] },
      { ...recording, panels: { Rate: [{ expr: 'up', series: [{ labels: {}, values }] }] } },
    );

  it('is rejected if the recording has no such panel', () => {
    expect(() => picture(dashboard, { ...recording, panels: {} })).toThrow(/"Rate".*recorded/);
  });

  it('is rejected if the recording is of another query', () => {
    const other = { ...dashboard, sections: [{ title: 'All', panels: [{ ...panel, queries: {} }] }] };
    expect(() => picture(other, recording)).toThrow(/"Rate".*recorded/);
  });

  /** The coordinates of the only series, part by part. */
  const drawnLine = (): number[][][] => {
    const [, path = ''] =
      /<path d="([^"]+)" fill="none" stroke="#73bf69"/.exec(picture(dashboard, recording)) ?? [];
    const parts = path.split('M').slice(1);
    return parts.map((part) => part.split('L').map((point) => point.split(' ').map(Number)));
  };

  it('interrupts a line at a missing value', () => {
    expect(drawnLine().map((part) => part.length)).toEqual([2, 2]);
  });

  it('draws higher values higher up, and later ones to the right', () => {
    const [[[x = 0, y = 0] = [], [right = 0, up = 0] = []] = [], [[, middle = 0] = []] = []] = drawnLine();
    expect(right).toBeGreaterThan(x);
    expect(up).toBeLessThan(middle);
    expect(middle).toBeLessThan(y);
  });

  it('draws the limit as a dashed line, and the values of the axis with their unit', () => {
    const drawn = picture(dashboard, recording);
    expect(drawn).toMatch(/stroke="#f2495c" stroke-dasharray="8,6"/);
    expect([...drawn.matchAll(/>(\d) req\/s</g)].map(([, value]) => value)).toEqual([
      '0',
      '1',
      '2',
      '3',
      '4',
    ]);
  });

  it('is the same however many were drawn before', () => {
    expect(picture(dashboard, recording)).toBe(picture(dashboard, recording));
  });

  it('names series by the labels of the legend, and escapes text', () => {
    const drawn = picture(dashboard, recording);
    expect(drawn).toContain('>ours of &lt;b&gt;</text>');
    expect(drawn).toContain('something &amp; more');
  });

  it('shows times in UTC', () => {
    expect(picture(dashboard, recording)).toContain('08:00:00 to 08:02:00 UTC');
    expect(picture(dashboard, recording)).toContain('08:01:00 something');
  });

  it('shows the last known value as a number, red from the limit on', () => {
    expect(withStat([5, 1, null])).toMatch(/fill="#73bf69"[^>]*>1 req\/s</);
    expect(withStat([1, 3, null])).toMatch(/fill="#f2495c"[^>]*>3 req\/s</);
    expect(withStat([null])).toContain('No data');
  });

  it.each([
    ['reqps', 0.5, '0.5 req/s'],
    ['ops', 1500, '1.5K ops/s'],
    ['short', 0, '0'],
    ['short', 2_500_000, '2.5 Mil'],
    ['none', 2_500_000, '2500000'],
    ['percentunit', 0.0406, '4.06%'],
    ['s', 0, '0 s'],
    ['s', 0.0025, '2.5 ms'],
    ['s', -30, '-30 s'],
    ['s', 90, '1.5 min'],
    ['s', 31_536_000, '365 days'],
    ['bytes', 157_286_400, '150 MiB'],
  ])('writes in %s %d as %s', (unit, value, text) => {
    expect(format(unit, value)).toBe(text);
  });

  it('rejects unknown units', () => {
    expect(() => format('dateTimeAsIso', 1)).toThrow(TypeError);
  });
});
