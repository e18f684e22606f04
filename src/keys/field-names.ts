import { isWord } from '../identifiers.ts';
import type { KeyKind } from '../oauth1/methods.ts';
import { distance, entriesOf, parseJson } from '../util/text.ts';

/** The fields that hold a key, their kind, and other names that tools give them; letters and digits alone. */
const keyFields = {
  control_key: { kind: 'control_key', names: ['controlkey'] },
  private_key: { kind: 'private_key', names: ['privatekey', 'privatekeypem', 'rsaprivatekey'] },
  transit_key: { kind: 'private_key', names: ['transitkey'] },
} as const satisfies Record<string, { kind: KeyKind; names: readonly string[] }>;

type KeyField = keyof typeof keyFields;

/** At most so many names are shown. */
const shownNames = 10;
/** Levels below a field: `data.data` of a response of Vault that was stored as it was, and one more. */
const maxDepth = 3;
/** Typing errors in a name that is still meant. */
const maxDistance = 2;

/**
 * Keys that are in a secret under another name, or too deep: nothing reads them, and which name was meant is said
 * rather than guessed. The problem has names of fields, never a value.
 */
export function misnamedKeys(fields: object): { readonly kind: KeyKind; readonly problem: string }[] {
  const known = entriesOf(fields);
  const has = (sought: KeyKind): boolean =>
    namesOf(keyFields).some((name) => keyFields[name].kind === sought && isGiven(known[name]));
  const found = Object.entries(known).flatMap(([name, value]) => meantBy(name, value));
  return (['control_key', 'private_key'] as const).flatMap((kind) => {
    const meant = has(kind) ? undefined : found.find(({ field }) => keyFields[field].kind === kind);
    return meant === undefined ? [] : [{ kind, problem: `${problemOf(meant)}${shownFields(fields)}` }];
  });
}

/** ` (its fields: a, b)`: those whose names can be shown. A name that is no word may be a secret in the wrong place. */
export function shownFields(fields: object): string {
  const all = Object.keys(fields);
  const shown = all.filter((name) => isWord(name, 32)).slice(0, shownNames);
  const more = all.length - shown.length;
  const others = more === 0 ? [] : [`${more} more`];
  return all.length === 0 ? ' (it has no fields)' : ` (its fields: ${[...shown, ...others].join(', ')})`;
}

interface Meant {
  readonly field: KeyField;
  readonly name: string;
  /** The field that it is below. */
  readonly below: string | undefined;
}

/** @param path of the fields above it */
function meantBy(name: string, value: unknown, path: readonly string[] = []): Meant[] {
  const field = fieldLike(name);
  const isRead = path.length === 0 && field === name;
  if (field !== undefined) return isRead || !isGiven(value) ? [] : [{ field, name, below: path[0] }];
  const inner = typeof value === 'string' ? parseJson(value) : value;
  if (path.length === maxDepth) return [];
  return Object.entries(entriesOf(inner)).flatMap(([below, content]) =>
    meantBy(below, content, [...path, name]),
  );
}

function fieldLike(name: string): KeyField | undefined {
  const plain = name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
  return namesOf(keyFields).find((field) =>
    keyFields[field].names.some((one) => distance(plain, one) <= maxDistance),
  );
}

function problemOf({ field, name, below }: Meant): string {
  const missing = `the secret has no field ${field}`;
  if (below !== undefined) {
    const where = isWord(below, 32) ? `below ${below}` : 'below another field';
    return `${missing} but one like it ${where}, where it is not read; store the fields directly in the secret`;
  }
  return `${missing} but ${isWord(name, 32) ? name : 'one like it'}, which is not read; rename it`;
}

function namesOf(fields: typeof keyFields): KeyField[] {
  return Object.keys(fields).filter((name): name is KeyField => name in keyFields);
}

/** Vault's command line cannot remove a field, only empty it. */
export function isGiven(value: unknown): boolean {
  return value !== undefined && value !== '';
}
