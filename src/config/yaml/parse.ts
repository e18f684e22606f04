import { type Document, type ErrorCode, isNode, LineCounter, parseDocument, type Scalar, visit } from 'yaml';
import { type EnvLookup, substituteEnv } from '../env-substitution.ts';
import { type Path, type Problem, pathText } from '../problem.ts';
import { offsetOf, pathOf } from './locate.ts';
import { faultText } from './messages.ts';

export interface ReadDocument {
  /** Plain data with its variables replaced; absent where the YAML is too broken to be looked at further. */
  readonly content?: { readonly value: unknown };
  readonly problems: readonly Problem[];
  /** The 1-based line of a place, or of the last step towards it that is there. */
  readonly lineOf: (path: Path) => number;
}

/** The first four because a `%YAML 1.1` directive in the file would change what is left open. */
const dialect = {
  version: '1.2',
  schema: 'core',
  merge: false,
  resolveKnownTags: false,
  stringKeys: true,
  prettyErrors: false,
  logLevel: 'error',
} as const;
/** In nodes, of which yaml makes two for each level of a mapping. */
const deepest = 40;

/**
 * Reads YAML 1.2 (core schema, text keys, no tags). Variables are replaced in values that are text, after
 * parsing, so that no variable can add structure. Never throws.
 */
export function readDocument(text: string, lookUp: EnvLookup): ReadDocument {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, ...dialect });
  const lineAt = (offset: number) => Math.max(1, lines.linePos(offset).line);
  const lineOf = (path: Path) => lineAt(offsetOf(document, path));
  const faults = [...document.errors, ...document.warnings];
  const problems = faults.map(({ code, pos }) => ({
    path: '',
    line: lineAt(pos[0]),
    message: faultText(code),
  }));
  if (faults.some(({ code }) => code !== 'DUPLICATE_KEY')) return { problems, lineOf };

  const problemAt: Report = (message, nodes) => {
    const node = nodes.at(-1);
    const line = lineAt(isNode(node) ? (node.range?.[0] ?? 0) : 0);
    problems.push({ path: pathText(pathOf(nodes)), line, message });
  };
  if (!isSound(document, problemAt)) return { problems, lineOf };
  replaceVariablesIn(document, lookUp, problemAt);
  const content = dataOf(document);
  if (content !== undefined) return { content, problems, lineOf };
  problemAt('repeats itself too often through aliases (*name): write some of it out', []);
  return { problems, lineOf };
}

/** Takes what is wrong with the last of these nodes; the others are those above it. */
type Report = (message: string, nodes: readonly unknown[]) => void;

/** Whether nothing in the document would make the next steps throw. */
function isSound(document: Document.Parsed, report: Report): boolean {
  let sound = true;
  const fail = (code: ErrorCode, nodes: readonly unknown[]) => {
    sound = false;
    report(faultText(code), nodes);
  };
  visit(document, {
    Alias(_, alias, above) {
      if (alias.resolve(document) === undefined) fail('BAD_ALIAS', [...above, alias]);
    },
    Collection(_, collection, above) {
      if (above.length <= deepest) return undefined;
      fail('RESOURCE_EXHAUSTION', [...above, collection]);
      return visit.SKIP;
    },
  });
  return sound;
}

/** In place. Keys are left as they stand. */
function replaceVariablesIn(document: Document.Parsed, lookUp: EnvLookup, report: Report): void {
  visit(document, {
    Scalar(position, scalar, above) {
      const messages = position === 'key' ? keyFaults(scalar) : replaceIn(scalar, lookUp);
      for (const message of messages) report(message, [...above, scalar]);
    },
  });
}

/** Zod passes over this key in silence, and it is nothing but trouble everywhere else. */
function keyFaults({ value }: Scalar): string[] {
  return value === '__proto__' ? ['is not a name that can be used'] : [];
}

function replaceIn(scalar: Scalar, lookUp: EnvLookup): string[] {
  if (typeof scalar.value !== 'string') return [];
  const { text, problems } = substituteEnv(scalar.value, lookUp);
  scalar.value = text;
  return problems;
}

function dataOf(document: Document.Parsed): ReadDocument['content'] {
  try {
    return { value: document.toJS({ maxAliasCount: 100 }) };
  } catch {
    return undefined;
  }
}
