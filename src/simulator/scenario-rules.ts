import { didYouMean, type Finding, type Path } from '../config/problem.ts';
import { operationFindings } from '../config/rules/operations.ts';
import { builtInOperations } from '../gateway/operations.ts';
import type { Scenario, ScenarioOrder } from './scenario-schema.ts';

/** Problems across fields: unknown names, duplicate IDs, operations that contradict each other. */
export function scenarioFindings(scenario: Scenario): Finding[] {
  const added = { operations: new Map(Object.entries(scenario.operations)), environments: new Map() };
  return [
    ...groupFindings(scenario),
    ...orderFindings(scenario),
    ...operationFindings(added, builtInOperations),
    ...operationNameFindings(scenario),
    ...responseFindings(scenario),
  ];
}

function groupFindings({ groups, endpoints }: Scenario): Finding[] {
  return Object.entries(groups).flatMap(([group, members]) =>
    members.flatMap((name, index) => unknown(name, endpoints, 'endpoints', ['groups', group, index])),
  );
}

function orderFindings({ orders, endpoints, logins }: Scenario): Finding[] {
  return [
    ...orders.flatMap((order, index) => [
      ...unknown(order.endpoint, endpoints, 'endpoints', ['orders', index, 'endpoint']),
      ...unknown(order.login, Object.keys(logins), 'logins', ['orders', index, 'login']),
    ]),
    ...repeated(orders.map(({ orderid }, index) => ({ id: orderid, path: ['orders', index, 'orderid'] }))),
    ...repeated(orders.flatMap(serialNumbers)),
  ];
}

function serialNumbers({ stages }: ScenarioOrder, order: number): { id: string; path: Path }[] {
  return stages.flatMap((stage, index) => {
    const id = stage['serial-number'];
    return id === undefined ? [] : [{ id, path: ['orders', order, 'stages', index, 'serial-number'] }];
  });
}

function repeated(ids: readonly { readonly id: string; readonly path: Path }[]): Finding[] {
  const seen = new Set<string>();
  return ids.flatMap(({ id, path }) => {
    if (seen.has(id)) return [{ path, message: 'is used before: every order and stage needs its own' }];
    seen.add(id);
    return [];
  });
}

function operationNameFindings({ operations, faults, signatures }: Scenario): Finding[] {
  const known = [...Object.keys(builtInOperations), ...Object.keys(operations)];
  return [
    ...Object.keys(signatures).flatMap((name) => unknownOperation(name, known, ['signatures', name])),
    ...faults.flatMap(({ operation }, index) =>
      operation === undefined ? [] : unknownOperation(operation, known, ['faults', index, 'operation']),
    ),
  ];
}

/** Built-in operations respond from the rest of the scenario. */
function responseFindings({ operations, responses }: Scenario): Finding[] {
  const added = Object.keys(operations).filter((name) => !Object.hasOwn(builtInOperations, name));
  return Object.keys(responses)
    .filter((name) => !added.includes(name))
    .map((name) => ({
      path: ['responses', name],
      message: `is not an operation that this scenario adds${didYouMean(name, added)}`,
    }));
}

function unknown(name: string, known: readonly string[], section: string, path: Path): Finding[] {
  return known.includes(name) ? [] : [{ path, message: `is not in ${section}: add it there, or correct it` }];
}

export function unknownOperation(name: string, known: readonly string[], path: Path): Finding[] {
  if (known.includes(name)) return [];
  return [{ path, message: `is not an operation${didYouMean(name, known)}` }];
}
