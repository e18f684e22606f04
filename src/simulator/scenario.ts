import { parseDocument } from 'yaml';
import { z } from 'zod';
import { type Scenario, type ScenarioOrder, scenarioShape } from './scenario-shape.ts';

/**
 * Reads a scenario from YAML text; config/scenario.yaml explains the format.
 *
 * @throws Error that lists every problem with its path.
 */
export function loadScenario(text: string): Scenario {
  const document = parseDocument(text);
  if (document.errors.length > 0) throw unusable(document.errors.map((error) => error.message));
  const shaped = scenarioShape.safeParse(document.toJS());
  if (!shaped.success) throw unusable(shaped.error.issues.map(describe));
  const problems = contradictions(shaped.data);
  if (problems.length > 0) throw unusable(problems);
  return shaped.data;
}

function unusable(problems: readonly string[]): Error {
  return new Error(`The scenario cannot be used:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
}

function describe(issue: z.core.$ZodIssue): string {
  const path = z.core.toDotPath(issue.path);
  return path === '' ? issue.message : `${path}: ${issue.message}`;
}

/** What a shape cannot say: names that point nowhere, ids given twice. */
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
    ...repeated(orders.map((order) => order.orderid)).map((id) => `orders: orderid ${id} is given twice`),
    ...repeated(orders.flatMap(serialNumbers)).map((id) => `orders: serial-number ${id} is given twice`),
  ];
}

function missing(names: readonly string[], known: readonly string[]): string[] {
  return names.filter((name) => !known.includes(name));
}

function repeated(values: readonly string[]): string[] {
  return [...new Set(values.filter((value, index) => values.indexOf(value) !== index))];
}

function serialNumbers(order: ScenarioOrder): string[] {
  return order.stages.flatMap((stage) => stage['serial-number'] ?? []);
}
