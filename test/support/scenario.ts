import { fileURLToPath } from 'node:url';
import { readOperationsFile } from '../../src/config/operations-file.ts';
import { builtInOperations } from '../../src/gateway/operations.ts';
import { parseScenario, type Scenario } from '../../src/simulator/scenario.ts';

export const operationsFile = fileURLToPath(new URL('../../config/operations.yaml', import.meta.url));
const published = await readOperationsFile(operationsFile, builtInOperations);
if ('problems' in published) throw new Error(published.problems.join('\n'));
/** Those of config/operations.yaml. */
export const publishedOperations = published.operations;

/** With the published operations. @throws Error that has each problem in a line of its own */
export function loadScenario(text: string): Scenario {
  const parsed = parseScenario(text, publishedOperations);
  if ('data' in parsed) return parsed.data;
  const lines = parsed.problems.map(({ line, path, message }) =>
    [`  line ${line}`, ...(path === '' ? [] : [path]), message].join(': '),
  );
  throw new Error(['Invalid scenario:', ...lines].join('\n'));
}
