import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { dashboards } from '../../scripts/dashboards/dashboards.ts';
import type { DashboardModel, PanelModel } from '../../scripts/dashboards/model.ts';
import { picture } from '../../scripts/pictures/picture.ts';
import { type Recording, readRecording } from '../../scripts/pictures/recorded.ts';
import { scaleFor } from '../../scripts/pictures/scale.ts';
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
    for (const title of titles) expect(svg.split(`>${title}</text>`)).toHaveLength(2);
  });

  it('has data in every panel', () => {
    expect(svg).not.toContain('No data');
  });

  it('states that it is not a screenshot', () => {
    expect(svg).toContain(
      'Drawn from recorded data by scripts/draw-dashboards.ts, not a Grafana screenshot.',
    );
  });

  it('is at most 200 KiB, without scripts and references', () => {
    expect(Buffer.byteLength(svg)).toBeLessThan(200 * 1024);
    expect(svg.replace('xmlns="http://www.w3.org/2000/svg"', '')).not.toMatch(
      /href|url\(|https?:|<(script|image|style|foreignObject)/i,
    );
  });
});

describe('a picture', () => {
  const panel: PanelModel = {
    title: 'Rate',
    description: 'Some rate.',
    kind: 'timeseries',
    unit: 'reqps',
    redFrom: 3,
    queries: [{ expr: 'up', legend: '{{name}} of <b>' }],
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
    const other = { ...dashboard, sections: [{ title: 'All', panels: [{ ...panel, queries: [] }] }] };
    expect(() => picture(other, recording)).toThrow(/"Rate".*recorded/);
  });

  it('interrupts a line at a missing value', () => {
    const lines = [...picture(dashboard, recording).matchAll(/<path d="([^"]+)" fill="none"/g)];
    expect(lines).toHaveLength(2);
  });

  it('draws higher values higher up', () => {
    const [, rise = ''] = /<path d="M[^l]+l([^"]+)" fill="none"/.exec(picture(dashboard, recording)) ?? [];
    const [right, down] = rise.split(',').map(Number);
    expect(right).toBeGreaterThan(0);
    expect(down).toBeLessThan(0);
  });

  it('names series by the labels of the legend, and escapes text', () => {
    const drawn = picture(dashboard, recording);
    expect(drawn).toContain('>ours of &lt;b></text>');
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

  it.each([
    [[3, 17], {}, [0, 5, 10, 15, 20]],
    [[0, 0], {}, [0, 0.2, 0.4, 0.6, 0.8, 1]],
    [[300, 500], { unit: 's' }, [0, 120, 240, 360, 480, 600]],
    [[-2, 88], { unit: 's', redBelow: -30 }, [-30, 0, 30, 60, 90]],
  ])('has round numbers on its axis: %j', (values, more, ticks) => {
    const scale = scaleFor(values, { ...panel, ...more });
    expect(scale.ticks.map((tick) => Number(tick.toFixed(6)))).toEqual(ticks);
  });
});
