import { didYouMean, type Path, type Report, repeated } from '../config/problem.ts';
import { checkOperations } from '../config/rules/operations.ts';
import { builtInOperations } from '../gateway/operations.ts';
import type { Scenario } from './scenario-schema.ts';

/** Rules across fields: known names, distinct IDs, operations that do not contradict each other. */
export function checkScenario(scenario: Scenario, report: Report): void {
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
