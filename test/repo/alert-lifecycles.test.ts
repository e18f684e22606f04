import { globSync, readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { z } from 'zod';
import { alertExpressions } from '../support/alert-expressions.ts';

const check = z.object({
  expr: z.string(),
  eval_time: z.string(),
  exp_samples: z.array(z.object({ labels: z.string() })).default([]),
});
const testFile = z.object({
  tests: z.array(z.object({ name: z.string(), promql_expr_test: z.array(check) })),
});
type Check = z.output<typeof check>;

const alerts = alertExpressions('deploy/prometheus');
const tests = globSync('deploy/prometheus/*.test.yaml').flatMap(
  (file) => testFile.parse(parse(readFileSync(file, 'utf8'))).tests,
);

// promtool runs these tests in alerts.test.ts.
it.each(alerts)('%s fires when caused and resolves when fixed, in one promtool test', (alert) => {
  expect(tests.some(({ promql_expr_test }) => firesAndResolves(promql_expr_test, alert))).toBe(true);
});

it('covers the alerts of all rule files', () => {
  expect(alerts).not.toEqual([]);
});

/** Whether the alert fires in the test, and no longer does at a later time. */
function firesAndResolves(checks: readonly Check[], alert: string): boolean {
  const ours = checks.filter(({ expr }) => queryFor(alert).test(expr));
  const fires = ours.find(({ exp_samples }) =>
    exp_samples.some(({ labels }) => labels.startsWith(`ALERTS{alertname="${alert}", alertstate="firing"`)),
  );
  const resolves = ours.findLast(({ exp_samples }) => exp_samples.length === 0);
  if (fires === undefined || resolves === undefined) return false;
  return seconds(resolves.eval_time) > seconds(fires.eval_time);
}

/** Only queries without further labels: no result for one label value says nothing about the others. */
function queryFor(alert: string): RegExp {
  return new RegExp(`^ALERTS\\{alertname=~?"([^"]*\\|)?${alert}(\\|[^"]*)?"(, alertstate="firing")?\\}$`);
}

const units: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

function seconds(duration: string): number {
  const parts = [...duration.matchAll(/(\d+)([smhd])/g)];
  return parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (units[unit] ?? Number.NaN), 0);
}
