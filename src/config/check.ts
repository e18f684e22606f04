import { callerFindings } from './caller-rules.ts';
import { readDocument } from './document.ts';
import { environmentFindings } from './environment-rules.ts';
import { type BuiltIn, operationFindings, operationNames } from './operation-rules.ts';
import { partsOf } from './parts.ts';
import { type Finding, inOrder, type Path, type Problem, pathText } from './problem.ts';
import { type Config, configShape } from './shape.ts';
import { inWords, shapeFindings } from './shape-findings.ts';
import type { LookUp } from './variables.ts';

export interface CheckPorts {
  /** Value of an environment variable. */
  readonly lookUp: LookUp;
  readonly builtIn: BuiltIn;
}

export type Checked =
  | {
      readonly config: Config /** 1-based line of a place in the file. */;
      readonly lineOf: (path: Path) => number;
    }
  | { readonly problems: readonly Problem[] };

/**
 * Turns the text of a configuration file into a {@link Config}, or says everything that is wrong with it, in
 * the order of its lines. Never throws; does no I/O; no message holds a value of the file.
 */
export function checkConfig(text: string, { lookUp, builtIn }: CheckPorts): Checked {
  const { content, problems: unread, lineOf } = readDocument(text, lookUp);
  if (content === undefined) return { problems: inOrder(unread) };
  const shaped = configShape.safeParse(content.value, { error: inWords });
  const findings = [
    ...(shaped.success ? [] : shapeFindings(shaped.error.issues)),
    ...crossFindings(content.value, builtIn),
  ];
  const problems = findings.map(({ path, message }) => ({
    path: pathText(path),
    line: lineOf(path),
    message,
  }));
  // A variable that is not set explains whatever else is wrong with the value it stands in.
  const unset = new Set(unread.map(({ path }) => path).filter((path) => path !== ''));
  const all = inOrder([...unread, ...problems.filter(({ path }) => !unset.has(path))]);
  return shaped.success && all.length === 0 ? { config: shaped.data, lineOf } : { problems: all };
}

/** What one field alone cannot tell. Parts that are wrong in themselves do not hide the others. */
function crossFindings(value: unknown, builtIn: BuiltIn): Finding[] {
  const parts = partsOf(value);
  return [
    ...environmentFindings(parts),
    ...operationFindings(parts, builtIn),
    ...callerFindings(parts, operationNames(parts, builtIn)),
  ];
}
