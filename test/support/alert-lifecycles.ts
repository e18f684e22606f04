import { globSync, readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { z } from 'zod';

/** The promtool test in which an alert fires and resolves after its cause is fixed. */
export interface AlertLifecycle {
  readonly alert: string;
  readonly severity: string;
  readonly test?: {
    readonly file: string;
    readonly name: string;
    readonly fires: string;
    readonly resolves: string;
  };
}

const ruleFile = z.object({
  groups: z.array(
    z.object({
      rules: z.array(
        z.object({
          alert: z.string().optional(),
          expr: z.string(),
          labels: z.record(z.string(), z.string()).default({}),
        }),
      ),
    }),
  ),
});
const check = z.object({
  expr: z.string(),
  eval_time: z.string(),
  exp_samples: z.array(z.object({ labels: z.string() })).default([]),
});
const testFile = z.object({
  tests: z.array(z.object({ name: z.string(), promql_expr_test: z.array(check) })),
});
type Check = z.output<typeof check>;

/** Every alert of the rule files, with its expression. */
export function alertExpressions(folder: string): readonly (readonly [string, string])[] {
  return rulesIn(folder).flatMap(({ alert, expr }) => (alert === undefined ? [] : [[alert, expr] as const]));
}

function rulesIn(folder: string) {
  return globSync(`${folder}/*.rules.yaml`)
    .sort()
    .flatMap((file) => ruleFile.parse(parse(readFileSync(file, 'utf8'))).groups)
    .flatMap(({ rules }) => rules);
}

/** Every alert of the rule files, with the first promtool test in which it fires and resolves. */
export function alertLifecycles(folder: string): readonly AlertLifecycle[] {
  const tests = globSync(`${folder}/*.test.yaml`)
    .sort()
    .flatMap((file) =>
      testFile.parse(parse(readFileSync(file, 'utf8'))).tests.map((test) => ({ file, ...test })),
    );
  return rulesIn(folder).flatMap(({ alert, labels }) => {
    if (alert === undefined) return [];
    const severity = labels['severity'] ?? 'none';
    const shown = tests.flatMap(({ file, name, promql_expr_test }) => {
      const times = lifecycleIn(promql_expr_test, alert);
      return times === undefined ? [] : [{ file, name, ...times }];
    });
    return [{ alert, severity, ...(shown[0] === undefined ? {} : { test: shown[0] }) }];
  });
}

function lifecycleIn(
  checks: readonly Check[],
  alert: string,
): { fires: string; resolves: string } | undefined {
  const ours = checks.filter(({ expr }) => queryFor(alert).test(expr));
  const fires = ours.find(({ exp_samples }) =>
    exp_samples.some(({ labels }) => labels.startsWith(`ALERTS{alertname="${alert}", alertstate="firing"`)),
  );
  const resolves = ours.findLast(({ exp_samples }) => exp_samples.length === 0);
  if (fires === undefined || resolves === undefined) return undefined;
  if (seconds(resolves.eval_time) <= seconds(fires.eval_time)) return undefined;
  return { fires: fires.eval_time, resolves: resolves.eval_time };
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
