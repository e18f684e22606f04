import { globSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { z } from 'zod';
import { alerting, alertRules, objectiveRules } from '../../scripts/docs/alert-rules.ts';
import { createPrometheus } from '../../src/observability/prometheus.ts';
import { promtool } from '../support/promtool.ts';
import { itWith } from '../support/requires.ts';
import { noReadings, routesOf } from '../support/routes.ts';

const rules = alerting.flatMap(({ alert, title = '', page, ticket }) =>
  Object.entries({ page, ticket }).flatMap(([severity, expr]) =>
    expr === undefined ? [] : [{ alert, severity, expr, title }],
  ),
);

const check = z.object({
  expr: z.string(),
  eval_time: z.string(),
  exp_samples: z.array(z.object({ labels: z.string() })).default([]),
});
const testFile = z.object({ tests: z.array(z.object({ promql_expr_test: z.array(check) })) });
type Check = z.output<typeof check>;

// promtool runs these tests in alert-rules.slow.test.ts.
const tests = globSync('deploy/prometheus/*.test.yaml').flatMap(
  (file) => testFile.parse(parse(readFileSync(file, 'utf8'))).tests,
);

it('the rules are those of the conditions (npm run generate)', () => {
  expect(readFileSync('deploy/prometheus/alerts.rules.yaml', 'utf8')).toBe(alertRules());
  expect(readFileSync('deploy/prometheus/objectives.rules.yaml', 'utf8')).toBe(objectiveRules());
});

itWith('promtool')('promtool accepts the rules', () => {
  const files = globSync('deploy/prometheus/*.rules.yaml').sort();
  const { status, output } = promtool(['check', 'rules', '--lint-fatal', ...files]);
  expect(output).not.toMatch(/FAILED|error/i);
  expect(status).toBe(0);
});

it('an alert has one condition; ten are core', () => {
  const names = alerting.map(({ alert }) => alert);
  expect(new Set(names).size).toBe(names.length);
  expect(alerting.filter(({ core }) => core)).toHaveLength(10);
});

describe.each(rules)('$alert as $severity', ({ alert, severity, expr, title }) => {
  it('fires when caused, for its release and with every label of its texts, and resolves, in one promtool test', () => {
    const firing = tests.flatMap(({ promql_expr_test }) => firingBeforeResolved(promql_expr_test, alert));
    const labels = firing.filter((one) => one.includes(`severity="${severity}"`));
    expect(labels).toContainEqual(expect.stringMatching(/namespace="\w+", release="\w+"/));
    for (const [, label = ''] of title.matchAll(/<(\w+)>/g))
      expect(labels).toContainEqual(expect.stringContaining(`${label}="`));
  });

  it('uses only exposed metrics', async () => {
    const page = (await createPrometheus({ version: '1', routes: routesOf() }).page(false, noReadings)).body;
    const recorded = readFileSync('deploy/prometheus/objectives.rules.yaml', 'utf8');
    for (const [name] of expr.matchAll(/\b(environment:)?countersign_[\w:]+/g)) {
      const family = name.replace(/_(bucket|count|sum)$/, '');
      expect(recorded.includes(`record: ${name}\n`) || page.includes(`# TYPE ${family} `)).toBe(true);
    }
  });
});

/** Labels with which an alert fires in a test, if it no longer does at a later time. */
function firingBeforeResolved(checks: readonly Check[], alert = ''): string[] {
  // Only queries without further labels: no result for one label value says nothing about the others.
  const query = new RegExp(`^ALERTS\\{alertname="${alert}"(, alertstate="firing")?\\}$`);
  const ours = checks.filter(({ expr }) => query.test(expr));
  const resolved = ours.findLast(({ exp_samples }) => exp_samples.length === 0)?.eval_time ?? '0m';
  const before = ours.filter(({ eval_time }) => seconds(eval_time) < seconds(resolved));
  return before.flatMap(({ exp_samples }) => exp_samples.map(({ labels }) => labels));
}

const units: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

function seconds(duration: string): number {
  const parts = [...duration.matchAll(/(\d+)([smhd])/g)];
  return parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (units[unit] ?? Number.NaN), 0);
}
