import { globSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { z } from 'zod';
import { createPrometheus } from '../../src/observability/prometheus.ts';
import { promtool } from '../support/promtool.ts';
import { itWith } from '../support/requires.ts';
import { noReadings, routesOf } from '../support/routes.ts';
import { runbookSections } from '../support/runbook.ts';

const rule = z.object({
  alert: z.string().optional(),
  record: z.string().optional(),
  expr: z.string(),
  labels: z.object({ severity: z.enum(['page', 'ticket']) }).optional(),
  annotations: z.object({ summary: z.string(), description: z.string(), runbook_url: z.string() }).optional(),
});
const ruleFile = z.object({ groups: z.array(z.object({ name: z.string(), rules: z.array(rule) })) });
const promqlTest = z.object({
  expr: z.string(),
  exp_samples: z.array(z.object({ labels: z.string() })).default([]),
});
const testFile = z.object({ tests: z.array(z.object({ promql_expr_test: z.array(promqlTest) })) });

const ruleFiles = globSync('deploy/prometheus/*.rules.yaml').sort();
const testFiles = globSync('deploy/prometheus/*.test.yaml').sort();
const rules = ruleFiles
  .flatMap((file) => ruleFile.parse(parse(readFileSync(file, 'utf8'))).groups)
  .flatMap((group) => group.rules);
const alerts = rules.flatMap(({ alert, ...rest }) => (alert === undefined ? [] : [{ alert, ...rest }]));
const checks = testFiles
  .flatMap((file) => testFile.parse(parse(readFileSync(file, 'utf8'))).tests)
  .flatMap((test) => test.promql_expr_test);

describe('promtool', () => {
  itWith('promtool')('accepts the rules', () => {
    const { status, output } = promtool(['check', 'rules', '--lint-fatal', ...ruleFiles]);
    expect(output).not.toMatch(/FAILED|error/i);
    expect(status).toBe(0);
  });
});

describe.each(alerts)('$alert', ({ alert, expr, labels, annotations }) => {
  it('has a severity, a summary, a description and a section in the runbook', () => {
    expect(labels?.severity).toBeDefined();
    expect(annotations?.summary).toMatch(/\S/);
    expect(annotations?.description).toMatch(/\S/);
    expect(annotations?.runbook_url).toBe(`deploy/runbook.md#${alert.toLowerCase()}`);
    expect([...runbookSections().keys()]).toContain(alert);
  });

  it('has a test in which it fires, with every label in its texts', () => {
    const firing = checks
      .flatMap((check) => check.exp_samples)
      .filter((sample) => sample.labels.includes(`alertname="${alert}"`));
    expect(firing.length).toBeGreaterThan(0);
    const named = `${annotations?.summary} ${annotations?.description}`.matchAll(/\$labels\.(\w+)/g);
    for (const [, label = ''] of named) {
      // Without the chart, Prometheus may add neither of the two.
      if (['namespace', 'release'].includes(label)) continue;
      for (const sample of firing) expect(sample.labels).toContain(`${label}="`);
    }
  });

  it('distinguishes releases, and its description names the release if there is one', () => {
    expect(annotations?.description).toMatch(
      /\{\{ with \$labels\.release \}\}Release \{\{ \. \}\} in namespace \{\{ \$labels\.namespace \}\}\.\{\{ end \}\}$/,
    );
    const firing = checks
      .flatMap((check) => check.exp_samples)
      .filter((sample) => sample.labels.includes(`alertname="${alert}"`));
    expect(firing.map((sample) => sample.labels)).toContainEqual(
      expect.stringMatching(/namespace="\w+", release="\w+"/),
    );
  });

  it('has a test in which it stays silent', () => {
    const silent = checks.filter((check) => check.exp_samples.length === 0);
    expect(silent.map((check) => check.expr)).toContainEqual(
      expect.stringMatching(new RegExp(`^ALERTS\\{alertname=~?"[^"]*\\b${alert}\\b`)),
    );
  });

  it('uses only exposed metrics', async () => {
    const page = (await createPrometheus({ version: '1', routes: routesOf() }).page(false, noReadings)).body;
    const recorded = rules.flatMap((other) => other.record ?? []);
    for (const [name] of expr.matchAll(/\b(environment:)?countersign_[\w:]+/g)) {
      const family = name.replace(/_(bucket|count|sum)$/, '');
      expect(recorded.includes(name) || page.includes(`# TYPE ${family} `)).toBe(true);
    }
  });
});
