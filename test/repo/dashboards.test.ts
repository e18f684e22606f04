import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { dashboards } from '../../scripts/dashboards/dashboards.ts';
import { build, serialize } from '../../scripts/dashboards/panels.ts';
import { picture } from '../../scripts/pictures/picture.ts';
import { readRecording } from '../../scripts/pictures/recorded.ts';
import { metricLabels } from '../support/exposition.ts';

const datasource = z.object({ type: z.literal('prometheus'), uid: z.literal('$datasource') });
const link = z.object({ title: z.string().min(1), url: z.string() });
const gridPos = z.object({ x: z.int(), y: z.int(), w: z.int().positive(), h: z.int().positive() });
const panelShape = z.object({
  id: z.int().positive(),
  type: z.enum(['stat', 'table', 'timeseries']),
  title: z.string().min(1),
  description: z.string().min(20),
  datasource,
  gridPos,
  links: z.array(link).default([]),
  fieldConfig: z.object({
    defaults: z.object({
      unit: z.string().min(1),
      thresholds: z.object({ steps: z.array(z.object({})).min(1) }),
    }),
  }),
  targets: z
    .array(
      z.object({
        refId: z.string(),
        expr: z.string(),
        legendFormat: z.string().min(1).optional(),
        datasource,
      }),
    )
    .min(1),
});
const rowShape = z.object({
  id: z.int().positive(),
  type: z.literal('row'),
  title: z.string().min(1),
  gridPos,
});
const dashboardShape = z.object({
  uid: z.string().min(1),
  title: z.string(),
  tags: z.array(z.string()),
  editable: z.literal(false),
  templating: z.object({ list: z.array(z.object({ name: z.string(), type: z.string() })) }),
  panels: z.array(z.discriminatedUnion('type', [rowShape, panelShape])),
});

const committed = Object.entries(dashboards).map(([file, model]) => {
  const text = readFileSync(`deploy/grafana/${file}`, 'utf8');
  return { file, model, text, dashboard: dashboardShape.parse(JSON.parse(text)) };
});
const panels = committed.flatMap(({ file, dashboard }) =>
  dashboard.panels.flatMap((panel) =>
    panel.type === 'row' ? [] : [{ name: `${file}: ${panel.title}`, panel }],
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

describe.each(committed)('$file', ({ file, model, text, dashboard }) => {
  it('is up to date with its source (npm run generate)', () => {
    expect(text).toBe(serialize(build(model)));
  });

  it('has the variables for data source, release, environment, operation and runbook', () => {
    expect(dashboard.templating.list.map(({ name, type }) => `${name}: ${type}`)).toEqual([
      'datasource: datasource',
      'namespace: query',
      'release: query',
      'environment: query',
      'operation: query',
      'runbook: constant',
    ]);
  });

  it('has panels on 24 columns without overlap', () => {
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) => {
      expect(x + w).toBeLessThanOrEqual(24);
      return Array.from({ length: w * h }, (_, at) => `${x + (at % w)},${y + Math.floor(at / w)}`);
    });
    expect(new Set(cells).size).toBe(cells.length);
  });

  it('has a unique ID and title for every panel', () => {
    for (const name of ['id', 'title'] as const)
      expect(new Set(dashboard.panels.map((panel) => panel[name])).size).toBe(dashboard.panels.length);
  });

  const svg = readFileSync(`deploy/grafana/pictures/${file.replace('.json', '.svg')}`, 'utf8');

  it('has a picture that is up to date with the recording (npm run generate), with data in every panel', () => {
    expect(picture(model, readRecording(file))).toBe(svg);
    expect(svg).not.toContain('No data');
    const titles = model.sections.flatMap(({ title, panels }) => [
      `⌄ ${title}`,
      ...panels.map((one) => one.title),
    ]);
    for (const title of titles)
      expect(svg.split(`>${title.replaceAll("'", '&#39;')}</text>`)).toHaveLength(2);
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

it('dashboards have unique UIDs and the tag that links them', () => {
  expect(new Set(committed.map(({ dashboard }) => dashboard.uid)).size).toBe(committed.length);
  for (const { dashboard } of committed) expect(dashboard.tags).toContain('countersign');
});

it('the runbook names only existing dashboards and panels', () => {
  const titles = committed.flatMap(({ model, dashboard }) => [
    model.title,
    ...dashboard.panels.map(({ title }) => title),
  ]);
  const named = readFileSync('deploy/runbook.md', 'utf8').matchAll(/(?<!\*)\*([^*\n]+)\*(?!\*)/g);
  for (const [, title] of named) expect(titles).toContain(title);
});

describe.each(panels)('$name', ({ panel }) => {
  it('uses only existing metrics and labels', () => {
    for (const { expr, legendFormat } of panel.targets) {
      for (const { name, matchers } of selectors(expr)) {
        const known = labels.get(name) ?? [];
        expect([...labels.keys()]).toContain(name);
        for (const [, label = ''] of matchers.matchAll(/(\w+)[=!]/g))
          expect([...targetLabels, ...known]).toContain(label);
      }
      const grouped = [...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, names = '']) => names.split(', '));
      for (const [, label] of (legendFormat ?? '').matchAll(/\{\{(\w+)\}\}/g))
        expect(grouped).toContain(label);
    }
  });

  it('is filtered by the variables if the metric has the label', () => {
    for (const { name, matchers } of panel.targets.flatMap(({ expr }) => selectors(expr))) {
      for (const label of ['environment', 'operation']) {
        if (labels.get(name)?.includes(label)) expect(matchers).toContain(`${label}=~"$${label}`);
      }
    }
  });

  it('distinguishes releases: each selector is filtered, each result is named', () => {
    for (const { expr, legendFormat } of panel.targets) {
      const all = [...expr.matchAll(/\b(?:countersign|process|nodejs)_\w+(\{[^}]*\})?/g)];
      expect(all.length).toBeGreaterThan(0);
      for (const [, matchers] of all) {
        expect(matchers).toContain('namespace=~"$namespace", release=~"$release"');
      }
      for (const [, grouped] of expr.matchAll(/\b(?:sum|min|max|count)\b(?: (?:by|on) \(([^)]*)\))?/g))
        expect(grouped).toMatch(/^namespace, release, /);
      // Without a legend, the labels are columns of a table.
      if (legendFormat !== undefined) expect(legendFormat).toMatch(/ \{\{namespace\}\} \{\{release\}\}$/);
    }
  });

  it('uses $__rate_interval or $__range as the window', () => {
    for (const { expr } of panel.targets) {
      const windows = [...expr.matchAll(/\[([^\]]*)\]/g)].map(([, window]) => window);
      for (const window of windows) expect(['$__rate_interval', '$__range']).toContain(window);
      const counters = selectors(expr).filter(({ name }) => /_(total|bucket)$/.test(name));
      expect(windows.length).toBeGreaterThanOrEqual(counters.length);
    }
  });

  it('has a unique letter for each query', () => {
    const letters = panel.targets.map(({ refId }) => refId);
    expect(new Set(letters).size).toBe(letters.length);
  });

  it('links to existing sections of the runbook', () => {
    const sections = readFileSync('deploy/runbook.md', 'utf8').matchAll(/^## (\w+)$/gm);
    const anchors = [...sections].map(([, name = '']) => `$runbook#${name.toLowerCase()}`);
    for (const { url } of panel.links) expect(anchors).toContain(url);
  });
});
