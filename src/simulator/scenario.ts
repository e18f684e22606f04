import { parseValue } from '../config/parse-value.ts';
import { findingsOf, inOrder, located, type Problem } from '../config/problem.ts';
import { readDocument } from '../config/yaml.ts';
import { checkScenario } from './scenario-rules.ts';
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
