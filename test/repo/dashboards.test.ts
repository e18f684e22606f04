import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { dashboards } from '../../scripts/dashboards/dashboards.ts';
import { place } from '../../scripts/dashboards/layout.ts';
import { build, serialize } from '../../scripts/dashboards/panels.ts';
import { picture } from '../../scripts/pictures/picture.ts';
import { readRecording } from '../../scripts/pictures/recorded.ts';
import { metricLabels } from '../support/exposition.ts';

const models = Object.entries(dashboards);
const panels = models.flatMap(([file, { sections }]) =>
  sections.flatMap((section) =>
    section.panels.map((panel) => ({ name: `${file}: ${panel.title}`, ...panel })),
  ),
);
const labels = metricLabels();
/** Labels that Prometheus adds to a target. */
const targetLabels = ['namespace', 'release'];

/** Every selector of Countersign metrics in a query: name and matchers. */
function selectors(expr: string): { name: string; matchers: string }[] {
  return [...expr.matchAll(/\b(countersign_\w+)(?:\{([^}]*)\})?/g)].map(([, name = '', matchers = '']) => ({
    name,
    matchers,
  }));
}

describe.each(models)('%s', (file, model) => {
  const titles = model.sections.flatMap(({ title, panels: own }) => [title, ...own.map((one) => one.title)]);

  it('is up to date with its source (npm run generate)', () => {
    expect(readFileSync(`deploy/grafana/${file}`, 'utf8')).toBe(serialize(build(model)));
  });

  it('has panels with titles of their own, on 24 columns without overlap', () => {
    expect(new Set(titles).size).toBe(titles.length);
    const cells = place(model.sections).flatMap(({ gridPos: { x, y, w, h } }) => {
      expect(x + w).toBeLessThanOrEqual(24);
      return Array.from({ length: w * h }, (_, at) => `${x + (at % w)},${y + Math.floor(at / w)}`);
    });
    expect(new Set(cells).size).toBe(cells.length);
  });

  const svg = readFileSync(`deploy/grafana/pictures/${file.replace('.json', '.svg')}`, 'utf8');

  it('has a picture that is up to date with the recording (npm run generate), with data in every panel', () => {
    expect(picture(model, readRecording(file))).toBe(svg);
    expect(svg).not.toContain('No data');
    for (const title of titles) expect(svg).toContain(`${title.replaceAll("'", '&#39;')}</text>`);
    expect(svg).toContain(
      'Drawn from recorded data by scripts/draw-dashboards.ts, not a Grafana screenshot.',
    );
  });

  it('has a picture of at most 320 KiB, without scripts and references to other files', () => {
    expect(Buffer.byteLength(svg)).toBeLessThan(320 * 1024);
    expect(svg.replaceAll(/ xmlns(:xlink)?="[^"]*"|url\(#c\d+\)/g, '')).not.toMatch(
      /href|url\(|https?:|<(script|image|style|foreignObject)/i,
    );
  });
});

it('the runbook names only existing dashboards and panels', () => {
  const titles = [...models.map(([, { title }]) => title), ...panels.map(({ title }) => title)];
  const named = readFileSync('deploy/runbook.md', 'utf8').matchAll(/(?<!\*)\*([^*\n]+)\*(?!\*)/g);
  for (const [, title] of named) expect(titles).toContain(title);
});

describe.each(panels)('$name', ({ queries, runbook }) => {
  const exprs = Object.values(queries);

  it('uses only existing metrics and labels', () => {
    for (const [legend, expr] of Object.entries(queries)) {
      for (const { name, matchers } of selectors(expr)) {
        expect([...labels.keys()]).toContain(name);
        for (const [, label = ''] of matchers.matchAll(/(\w+)[=!]/g))
          expect([...targetLabels, ...(labels.get(name) ?? [])]).toContain(label);
      }
      const grouped = [...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, names = '']) => names.split(', '));
      for (const [, label] of legend.matchAll(/\{\{(\w+)\}\}/g)) expect(grouped).toContain(label);
    }
  });

  it('is filtered by release, environment and operation, as far as the metric has the label, and sums up no releases', () => {
    for (const { name, matchers } of exprs.flatMap(selectors))
      for (const label of ['environment', 'operation'])
        if (labels.get(name)?.includes(label)) expect(matchers).toContain(`${label}=~"$${label}`);
    for (const expr of exprs) {
      const all = [...expr.matchAll(/\b(?:countersign|process|nodejs)_\w+(\{[^}]*\})?/g)];
      expect(all.length).toBeGreaterThan(0);
      for (const [, matchers] of all)
        expect(matchers).toContain('namespace=~"$namespace", release=~"$release"');
      for (const [, grouped] of expr.matchAll(/\b(?:sum|min|max|count)\b(?: (?:by|on) \(([^)]*)\))?/g))
        expect(grouped).toMatch(/^namespace, release, /);
    }
  });

  it('uses $__rate_interval or $__range as the window', () => {
    for (const expr of exprs) {
      const windows = [...expr.matchAll(/\[([^\]]*)\]/g)].map(([, window]) => window);
      for (const window of windows) expect(['$__rate_interval', '$__range']).toContain(window);
      const counters = selectors(expr).filter(({ name }) => /_(total|bucket)$/.test(name));
      expect(windows.length).toBeGreaterThanOrEqual(counters.length);
    }
  });

  it('links to an existing section of the runbook', () => {
    if (runbook !== undefined)
      expect(readFileSync('deploy/runbook.md', 'utf8')).toContain(`\n## ${runbook}\n`);
  });
});
