import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isPair,
  isScalar,
  isSeq,
  type Scalar,
  visit,
  type YAMLError,
} from 'yaml';
import type { Path } from '../problem.ts';

/** The path of a node, from its ancestors and itself. All keys are strings. */
export function pathOf(nodes: readonly unknown[]): Path {
  return nodes.flatMap((node, depth): PropertyKey[] => {
    if (isPair<Scalar>(node)) return [String(node.key.value)];
    return isSeq(node) && depth + 1 < nodes.length ? [node.items.indexOf(nodes[depth + 1])] : [];
  });
}

/** Where a path starts, in characters: at the key of a mapping, or at the item of a sequence. */
export function offsetOf(document: Document.Parsed, path: Path): number {
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

/**
 * Where the cause of an error is, in characters. The parser notices an open quote or bracket only where the text stops
 * making sense, which may be many lines later: the cause is where it was opened.
 */
export function causeOf({ code, pos: [at] }: YAMLError, document: Document.Parsed, text: string): number {
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
