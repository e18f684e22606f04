import { z } from 'zod';
import { inOrder, located, type Problem } from '../config/problem.ts';
import { readDocument } from '../config/yaml/parse.ts';
import { errorMap, schemaFindings } from '../config/zod-messages.ts';
import { scenarioFindings } from './scenario-rules.ts';
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
  const parsed = scenarioSchema.safeParse(content.value, { error: errorMap });
  const findings = parsed.success
    ? scenarioFindings(parsed.data)
    : schemaFindings(parsed.error.issues, () =>
        z.toJSONSchema(scenarioSchema, { io: 'input', target: 'draft-7' }),
      );
  const all = inOrder([...yamlProblems, ...located(findings, lineOf)]);
  if (!parsed.success || all.length > 0) throw new ScenarioError(all);
  return parsed.data;
}
