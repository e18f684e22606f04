import { parseScenario, type Scenario } from '../../src/simulator/scenario.ts';

/** @throws Error that has each problem in a line of its own */
export function loadScenario(text: string): Scenario {
  const parsed = parseScenario(text);
  if ('data' in parsed) return parsed.data;
  const lines = parsed.problems.map(({ line, path, message }) =>
    [`  line ${line}`, ...(path === '' ? [] : [path]), message].join(': '),
  );
  throw new Error(['Invalid scenario:', ...lines].join('\n'));
}
