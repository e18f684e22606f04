import { parseDocument } from 'yaml';
import { z } from 'zod';
import { type Scenario, type ScenarioOrder, scenarioSchema } from './scenario-schema.ts';

/**
 * Parses a scenario from YAML text; config/scenario.yaml explains the format.
 *
 * @throws Error that lists every problem with its path
 */
export function loadScenario(text: string): Scenario {
  const document = parseDocument(text);
  if (document.errors.length > 0) throw scenarioError(document.errors.map((error) => error.message));
  const parsed = scenarioSchema.safeParse(document.toJS());
  if (!parsed.success) throw scenarioError(parsed.error.issues.map(describe));
  const problems = contradictions(parsed.data);
  if (problems.length > 0) throw scenarioError(problems);
  return parsed.data;
}

function scenarioError(problems: readonly string[]): Error {
  return new Error(`Invalid scenario:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
}

function describe(issue: z.core.$ZodIssue): string {
  const path = z.core.toDotPath(issue.path);
  return path === '' ? issue.message : `${path}: ${issue.message}`;
}

/** Problems across fields: unknown names, duplicate ids. */
function contradictions({ logins, endpoints, groups, orders }: Scenario): string[] {
  return [
    ...Object.entries(groups).flatMap(([group, members]) =>
      missing(members, endpoints).map((name) => `groups.${group}: endpoint ${name} is not in endpoints`),
    ),
    ...orders.flatMap((order, index) => [
      ...missing([order.endpoint], endpoints).map(
        (name) => `orders[${index}].endpoint: ${name} is not in endpoints`,
      ),
      ...missing([order.login], Object.keys(logins)).map(
        (name) => `orders[${index}].login: ${name} is not in logins`,
      ),
    ]),
    ...duplicates(orders.map((order) => order.orderid)).map((id) => `orders: duplicate orderid ${id}`),
    ...duplicates(orders.flatMap(serialNumbers)).map((id) => `orders: duplicate serial-number ${id}`),
  ];
}

function missing(names: readonly string[], known: readonly string[]): string[] {
  return names.filter((name) => !known.includes(name));
}

function duplicates(values: readonly string[]): string[] {
  return [...new Set(values.filter((value, index) => values.indexOf(value) !== index))];
}

function serialNumbers(order: ScenarioOrder): string[] {
  return order.stages.flatMap((stage) => stage['serial-number'] ?? []);
}
