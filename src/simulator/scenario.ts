import { checkOperations } from '../config/operation-rules.ts';
import { parseValue } from '../config/parse-value.ts';
import {
  findingsOf,
  inOrder,
  located,
  type Path,
  type Problem,
  type Report,
  repeated,
} from '../config/problem.ts';
import { readDocument } from '../config/yaml.ts';
import { builtInOperations } from '../gateway/operations.ts';
import { didYouMean } from '../util/did-you-mean.ts';
import { type Scenario, scenarioSchema } from './scenario-schema.ts';

/** An invalid scenario. The message has every problem with its line. */
export class ScenarioError extends Error {
  override readonly name = 'ScenarioError';
  /** In the order of their lines. */
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    const lines = problems.map(({ line, path, message }) =>
      [`  line ${line}`, ...(path === '' ? [] : [path]), message].join(': '),
    );
    super(['Invalid scenario:', ...lines].join('\n'));
    this.problems = problems;
  }
}

/**
 * Parses a scenario from YAML text; config/scenario.yaml explains the format.
 *
 * @throws ScenarioError
 */
export function loadScenario(text: string): Scenario {
  const { content, problems: yamlProblems, lineOf } = readDocument(text);
  if (content === undefined) throw new ScenarioError(inOrder(yamlProblems));
  const { data: scenario, findings } = parseValue(scenarioSchema, content.value);
  const acrossFields = findingsOf((report) => scenario && checkScenario(scenario, report));
  const all = inOrder([...yamlProblems, ...located([...findings, ...acrossFields], lineOf)]);
  if (scenario === undefined || all.length > 0) throw new ScenarioError(all);
  return scenario;
}

/** Rules across fields: known names, distinct IDs, operations that do not contradict each other. */
function checkScenario(scenario: Scenario, report: Report): void {
  const { endpoints, faults, groups, logins, orders, responses, signatures } = scenario;
  const checkKnown = (name: string, known: readonly string[], section: string, path: Path) => {
    if (!known.includes(name)) report(path, `is not in ${section}: add it there, or correct it`);
  };
  for (const [group, members] of Object.entries(groups))
    for (const [index, name] of members.entries())
      checkKnown(name, endpoints, 'endpoints', ['groups', group, index]);
  for (const [index, { endpoint, login }] of orders.entries()) {
    checkKnown(endpoint, endpoints, 'endpoints', ['orders', index, 'endpoint']);
    checkKnown(login, Object.keys(logins), 'logins', ['orders', index, 'login']);
  }
  const orderIds = orders.map(({ orderid }, index) => ({ id: orderid, path: ['orders', index, 'orderid'] }));
  const serialNumbers = orders.flatMap(({ stages }, order) =>
    stages.map((stage, index) => ({
      id: stage['serial-number'],
      path: ['orders', order, 'stages', index, 'serial-number'],
    })),
  );
  for (const ids of [orderIds, serialNumbers])
    for (const [{ path }] of repeated<{ id: string | undefined; path: Path }>(ids, ({ id }) => id))
      report(path, 'is used before: every order and stage needs its own');

  const layers = { operations: new Map(Object.entries(scenario.operations)), environments: new Map() };
  checkOperations(layers, builtInOperations, report);
  const operations = [...Object.keys(builtInOperations), ...Object.keys(scenario.operations)];
  for (const name of Object.keys(signatures)) checkOperation(name, operations, ['signatures', name], report);
  for (const [index, { operation }] of faults.entries())
    checkOperation(operation, operations, ['faults', index, 'operation'], report);
  // Built-in operations respond from the rest of the scenario.
  const added = Object.keys(scenario.operations).filter((name) => !Object.hasOwn(builtInOperations, name));
  for (const name of Object.keys(responses))
    if (!added.includes(name))
      report(['responses', name], `is not an operation that this scenario adds${didYouMean(name, added)}`);
}

/** @param name absent for all operations */
export function checkOperation(
  name: string | undefined,
  known: readonly string[],
  path: Path,
  report: Report,
): void {
  if (name !== undefined && !known.includes(name))
    report(path, `is not an operation${didYouMean(name, known)}`);
}
