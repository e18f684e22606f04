import {
  type Document,
  type ErrorCode,
  isAlias,
  isCollection,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  type Scalar,
  visit,
  type YAMLError,
} from 'yaml';
import { type Path, type Problem, pathText } from './problem.ts';
import { type EnvLookup, substituteEnv, unquotedVariables } from './variables.ts';

/** Our own texts: the parser's messages quote the file, which may contain a secret. */
const messages: Readonly<Partial<Record<ErrorCode, string>>> = {
  BAD_ALIAS: 'refers to an anchor (&name) that is not defined above it',
  BAD_COLLECTION_TYPE: 'has a tag (!name): remove it',
  BAD_DQ_ESCAPE: 'has an invalid escape in double quotes: write "\\\\" for a backslash, or use single quotes',
  BAD_INDENT: 'is not indented like its siblings, or has a bracket that is not closed',
  BAD_SCALAR_START: 'starts with a character that YAML reserves: put the value in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'has a second ":" (put the value in quotes), or the next line is indented too far',
  DUPLICATE_KEY: 'duplicate key: remove one of the two',
  MISSING_CHAR: 'is missing a quote, bracket, comma, colon or space',
  MULTILINE_IMPLICIT_KEY: 'is a key without ":" after it, or a value that is not indented',
  MULTIPLE_DOCS: 'starts a second document: remove the "---"',
  NON_STRING_KEY: 'key must be a string: put it in quotes',
  RESOURCE_EXHAUSTION: 'is nested too deeply',
  TAB_AS_INDENT: 'is indented with a tab: use spaces',
  TAG_RESOLVE_FAILED: 'has a tag (!name): remove it, or put the value in quotes',
};

interface ReadDocument {
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

/**
 * Parses YAML 1.2 (core schema, string keys, no tags). Replaces variables in string values after parsing, so that no
 * variable can add structure; without `lookUp`, `${NAME}` is plain text. Never throws.
 */
export function readDocument(text: string, lookUp?: EnvLookup): ReadDocument {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, ...dialect });
  const lineAt = (offset: number) => lines.linePos(offset).line;
  const lineOf = (path: Path) => lineAt(offsetOf(document, path));
  const problemAt = (offset: number, message: string) => ({ path: '', line: lineAt(offset), message });
  const problemOf = (issue: YAMLError) => problemAt(causeOf(issue, document, text), yamlMessage(issue.code));
  const issues = [...document.errors, ...document.warnings];
  const [first] = issues
    .filter(({ code }) => code !== 'DUPLICATE_KEY')
    .toSorted((one, other) => one.pos[0] - other.pos[0]);
  if (first !== undefined) {
    // Either causes the others.
    const unquoted = unquotedVariables(text).map((at) => problemAt(at, quoteIt));
    return { problems: unquoted.length > 0 ? unquoted : [problemOf(first)], lineOf };
  }
  const problems = issues.map(problemOf);
  const isSound = checkNodes(document, lookUp, (message, node, above) => {
    problems.push({ ...problemAt(node.range?.[0] ?? 0, message), path: pathText(pathOf([...above, node])) });
  });
  if (!isSound) return { problems, lineOf };
  try {
    return { content: { value: document.toJS() }, problems, lineOf };
  } catch {
    problems.push(problemAt(0, 'expands too many aliases (*name): write some of them out'));
    return { problems, lineOf };
  }
}

/**
 * Replaces variables in place, except in keys.
 *
 * @returns whether the document can be processed further without throwing
 */
function checkNodes(
  document: Document.Parsed,
  lookUp: EnvLookup | undefined,
  report: (message: string, node: Node, above: readonly unknown[]) => void,
): boolean {
  let isSound = true;
  visit(document, {
    Alias(_, alias, above) {
      if (alias.resolve(document) !== undefined) return;
      isSound = false;
      report(yamlMessage('BAD_ALIAS'), alias, above);
    },
    Scalar(position, scalar, above) {
      const { value } = scalar;
      // Zod silently ignores this key, and it is dangerous elsewhere.
      if (position === 'key' && value === '__proto__') report('is not a valid name', scalar, above);
      if (position === 'key' || typeof value !== 'string' || lookUp === undefined) return;
      const path = pathOf([...above, scalar]);
      scalar.value = substituteEnv(
        value,
        (name) => lookUp(name, path),
        (problem) => report(problem, scalar, above),
      );
    },
  });
  return isSound;
}

/** The path of a node, from its ancestors and itself. All keys are strings. */
function pathOf(nodes: readonly unknown[]): Path {
  return nodes.flatMap((node, depth): PropertyKey[] => {
    if (isPair<Scalar>(node)) return [String(node.key.value)];
    return isSeq(node) && depth + 1 < nodes.length ? [node.items.indexOf(nodes[depth + 1])] : [];
  });
}

/** Where a path starts, in characters: at the key of a mapping, or at the item of a sequence. */
function offsetOf(document: Document.Parsed, path: Path): number {
  let node: unknown = document.contents;
  let offset = 0;
  for (const step of path) {
    const inside = isAlias(node) ? node.resolve(document) : node;
    const pair = isMap<Scalar>(inside) && inside.items.findLast(({ key }) => key.value === step);
    node = isSeq(inside) ? inside.items[Number(step)] : pair && pair.value;
    const place = pair ? pair.key : node;
    if (!isNode(place)) break;
    offset = place.range?.[0] ?? offset;
  }
  return offset;
}

/**
 * Where the cause of an error is, in characters. The parser notices an open quote or bracket only where the text stops
 * making sense, which may be many lines later: the cause is where it was opened.
 */
function causeOf({ code, pos: [at] }: YAMLError, document: Document.Parsed, text: string): number {
  let opened: number | undefined;
  const isAtEnd = text.slice(at).trim() === '';
  visit(document, {
    Node(_, node) {
      const [start = 0, closed = 0, end = 0] = node.range ?? [];
      const isQuoted = isScalar(node) && (node.type === 'QUOTE_DOUBLE' || node.type === 'QUOTE_SINGLE');
      const isFlow = isCollection(node) && node.flow === true && !/[\]}]/.test(text.charAt(closed - 1));
      const mayBeOpen =
        code === 'BAD_INDENT' ? isFlow : code === 'MISSING_CHAR' && (isQuoted || (isFlow && isAtEnd));
      if (mayBeOpen && start <= at && at <= end) opened = start;
    },
  });
  // Errors of indentation begin at the blank lines and comments before the line.
  return opened ?? at + (/^(?:\s|#.*)*/.exec(text.slice(at))?.[0].length ?? 0);
}

function yamlMessage(code: ErrorCode): string {
  return messages[code] ?? 'is not valid YAML: look for a missing quote, bracket or colon here or just above';
}
