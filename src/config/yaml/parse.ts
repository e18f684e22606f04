import {
  type Document,
  type ErrorCode,
  isNode,
  LineCounter,
  parseDocument,
  type Scalar,
  visit,
  type YAMLError,
} from 'yaml';
import { type EnvLookup, substituteEnv } from '../env-substitution.ts';
import { type Path, type Problem, pathText } from '../problem.ts';
import { causeOf, offsetOf, pathOf } from './locate.ts';
import { yamlMessage } from './messages.ts';
import { unquotedVariables } from './unquoted-variables.ts';

export interface ReadDocument {
  /** Plain data, with variables replaced if there is a look-up; absent if the YAML cannot be processed further. */
  readonly content?: { readonly value: unknown };
  readonly problems: readonly Problem[];
  /** The line of a path from 1, or of its last step that exists. */
  readonly lineOf: (path: Path) => number;
}

/** The first four are explicit because a `%YAML 1.1` directive in the file would change their defaults. */
const dialect = {
  version: '1.2',
  schema: 'core',
  merge: false,
  resolveKnownTags: false,
  stringKeys: true,
  prettyErrors: false,
  logLevel: 'error',
} as const;
const quoteIt = 'has a ${NAME} without quotes within { } or [ ]: quote it, "${NAME}"';
/** Nodes; yaml makes two for each level of a mapping. */
const maxDepth = 40;

/**
 * Parses YAML 1.2 (core schema, string keys, no tags). Replaces variables in string values after parsing, so that no
 * variable can add structure; without `lookUp`, `${NAME}` is plain text. Never throws.
 */
export function readDocument(text: string, lookUp?: EnvLookup): ReadDocument {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, ...dialect });
  const lineAt = (offset: number) => Math.max(1, lines.linePos(offset).line);
  const lineOf = (path: Path) => lineAt(offsetOf(document, path));
  const issues = [...document.errors, ...document.warnings];
  const problemsOf = (some: readonly YAMLError[]) =>
    some.map((issue) => ({
      path: '',
      line: lineAt(causeOf(issue, document, text)),
      message: yamlMessage(issue.code),
    }));
  const [first] = issues
    .filter(({ code }) => code !== 'DUPLICATE_KEY')
    .toSorted((one, other) => one.pos[0] - other.pos[0]);
  if (first !== undefined) {
    // Either causes the others.
    const unquoted = unquotedVariables(text).map((at) => ({ path: '', line: lineAt(at), message: quoteIt }));
    return { problems: unquoted.length > 0 ? unquoted : problemsOf([first]), lineOf };
  }
  const problems = problemsOf(issues);

  const problemAt: Report = (message, nodes) => {
    const node = nodes.at(-1);
    const line = lineAt(isNode(node) ? (node.range?.[0] ?? 0) : 0);
    problems.push({ path: pathText(pathOf(nodes)), line, message });
  };
  if (!isSound(document, problemAt)) return { problems, lineOf };
  replaceVariablesIn(document, lookUp, problemAt);
  const content = dataOf(document);
  if (content !== undefined) return { content, problems, lineOf };
  problemAt('expands too many aliases (*name): write some of them out', []);
  return { problems, lineOf };
}

/** Reports a problem of the last of these nodes; the others are its ancestors. */
type Report = (message: string, nodes: readonly unknown[]) => void;

/** Whether the next steps can process the document without throwing. */
function isSound(document: Document.Parsed, report: Report): boolean {
  let sound = true;
  const fail = (code: ErrorCode, nodes: readonly unknown[]) => {
    sound = false;
    report(yamlMessage(code), nodes);
  };
  visit(document, {
    Alias(_, alias, above) {
      if (alias.resolve(document) === undefined) fail('BAD_ALIAS', [...above, alias]);
    },
    Collection(_, collection, above) {
      if (above.length <= maxDepth) return undefined;
      fail('RESOURCE_EXHAUSTION', [...above, collection]);
      return visit.SKIP;
    },
  });
  return sound;
}

/** In place. Keys stay unchanged. */
function replaceVariablesIn(document: Document.Parsed, lookUp: EnvLookup | undefined, report: Report): void {
  visit(document, {
    Scalar(position, scalar, above) {
      const messages = position === 'key' ? keyProblems(scalar) : replaceIn(scalar, above, lookUp);
      for (const message of messages) report(message, [...above, scalar]);
    },
  });
}

/** Zod silently ignores this key, and it is dangerous elsewhere. */
function keyProblems({ value }: Scalar): string[] {
  return value === '__proto__' ? ['is not a valid name'] : [];
}

function replaceIn(scalar: Scalar, above: readonly unknown[], lookUp: EnvLookup | undefined): string[] {
  if (lookUp === undefined || typeof scalar.value !== 'string') return [];
  const path = pathText(pathOf([...above, scalar]));
  const { text, problems } = substituteEnv(scalar.value, path, lookUp);
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
