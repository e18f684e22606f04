import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { dashboards } from '../../scripts/dashboards/dashboards.ts';
import { picture } from '../../scripts/pictures/picture.ts';
import { readRecording } from '../../scripts/pictures/recorded.ts';

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
