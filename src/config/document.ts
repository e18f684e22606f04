import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  type Scalar,
} from 'yaml';
import { type Path, type Problem, pathText } from './problem.ts';
import { type LookUp, replaceVariables } from './variables.ts';
import { faultText } from './yaml-fault.ts';

export interface ReadDocument {
  /** Plain data with its variables replaced; absent where the YAML is too broken to be looked at further. */
  readonly content?: { readonly value: unknown };
  readonly problems: readonly Problem[];
  /** The 1-based line of a place, or of the last step towards it that is there. */
  readonly lineOf: (path: Path) => number;
}

/** Set one by one, or a `%YAML 1.1` directive in the file would change them. */
const dialect = {
  version: '1.2',
  schema: 'core',
  merge: false,
  resolveKnownTags: false,
  stringKeys: true,
} as const;

/**
 * Reads YAML 1.2 (core schema, text keys, no tags). Variables are replaced in values that are text, after
 * parsing, so that no variable can add structure.
 */
export function readDocument(text: string, lookUp: LookUp): ReadDocument {
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    logLevel: 'error',
    ...dialect,
  });
  const lineAt = (offset: number) => Math.max(1, lines.linePos(offset).line);
  const lineOf = (path: Path) => lineAt(offsetOf(document, path));
  const faults = [...document.errors, ...document.warnings];
  const problems = faults.map(({ code, pos }) => problem([], lineAt(pos[0]), faultText(code)));
  if (faults.some(({ code }) => code !== 'DUPLICATE_KEY')) return { problems, lineOf };
  try {
    for (const [path, scalar] of textsIn(document.contents, [])) {
      const replaced = replaceVariables(scalar.value, lookUp);
      scalar.value = replaced.text;
      for (const message of replaced.problems) problems.push(problem(path, lineOf(path), message));
    }
    return { content: { value: document.toJS({ maxAliasCount: 100 }) }, problems, lineOf };
  } catch {
    // The stack or the alias count ran out: nothing else throws once the text has been parsed.
    const message = 'is nested too deeply, or repeats itself too often through aliases (*name)';
    return { problems: [...problems, problem([], 1, message)], lineOf };
  }
}

function problem(path: Path, line: number, message: string): Problem {
  return { path: pathText(path), line, message };
}

/** Every value that is text, once: aliases are not followed. Keys are left as they stand. */
function* textsIn(node: unknown, path: Path): Generator<[Path, Scalar<string>]> {
  if (isScalar(node) && isText(node)) yield [path, node];
  if (isMap<Scalar>(node))
    for (const { key, value } of node.items) yield* textsIn(value, [...path, String(key.value)]);
  if (isSeq(node)) for (const [index, item] of node.items.entries()) yield* textsIn(item, [...path, index]);
}

function isText(scalar: Scalar): scalar is Scalar<string> {
  return typeof scalar.value === 'string';
}

/** Where a place begins, in characters: at the key in a mapping, at the item in a sequence. */
function offsetOf(document: Document.Parsed, path: Path): number {
  let node: unknown = document.contents;
  let offset = 0;
  for (const step of path) {
    const inside = isAlias(node) ? node.resolve(document) : node;
    if (isMap<Scalar>(inside)) {
      const pair = inside.items.findLast(({ key }) => key.value === step);
      if (pair === undefined) break;
      offset = pair.key.range?.[0] ?? offset;
      node = pair.value;
    } else if (isSeq<Scalar>(inside)) {
      const item = inside.items[Number(step)];
      if (item === undefined) break;
      offset = item.range?.[0] ?? offset;
      node = item;
    } else break;
  }
  return offset;
}
