import { readFileSync } from 'node:fs';
import { isCollection, isMap, isScalar, type Pair, parseDocument, stringify } from 'yaml';
import { cell, code, table } from './markdown.ts';

/** A default that is longer is left to the file. */
const longestDefault = 60;

/** Every value of the chart with its default, and the comment above it. */
export function valuesTable(): string {
  const file = new URL('../../helm/countersign/values.yaml', import.meta.url);
  const { contents } = parseDocument(readFileSync(file, 'utf8'));
  if (!isMap(contents)) throw new TypeError('values.yaml is not a mapping');
  return table(['value', 'default', 'meaning'], rowsOf(contents.items, []));
}

function rowsOf(pairs: readonly Pair[], path: readonly string[], comment = ''): string[][] {
  return pairs.flatMap(({ key, value }, index) => {
    if (!isScalar(key)) return [];
    const name = [...path, String(key.value)];
    // The comment of the first key belongs to its mapping.
    const about = meaningOf(key.commentBefore ?? (index === 0 ? comment : ''));
    if (!isMap(value) || value.flow === true) return [[code(name.join('.')), defaultOf(value), about]];
    return [
      ...(about === '' ? [] : [[code(name.join('.')), '', about]]),
      ...rowsOf(value.items, name, value.commentBefore ?? undefined),
    ];
  });
}

function defaultOf(value: unknown): string {
  const plain: unknown = isCollection(value) || isScalar(value) ? value.toJSON() : value;
  const text = stringify(plain, { collectionStyle: 'flow', lineWidth: 0 }).trim();
  return text.length > longestDefault ? '[values.yaml](values.yaml)' : code(text);
}

/** The last paragraph: prose as it is; an example, which is indented, as code if it is one line. */
function meaningOf(comment: string): string {
  const paragraph = comment.split(/\n *\n/).at(-1) ?? '';
  const parts = paragraph.split(/^((?: {3,}.*(?:\n|$))+)/m).map((part, index) => {
    const text = part.trim();
    if (index % 2 === 0) return cell(text);
    return `${text.includes('\n') ? 'see [values.yaml](values.yaml)' : code(text)}.`;
  });
  return parts.filter((part) => part !== '').join(' ');
}
