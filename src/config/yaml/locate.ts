import { type Document, isAlias, isMap, isPair, isSeq, type Scalar } from 'yaml';
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
