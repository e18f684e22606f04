import type { Config } from '../../config/schema.ts';
import type { Operation, OperationTable } from '../../gateway/operations.ts';
import { type KeyKind, methods } from '../../oauth1/methods.ts';

export interface RequiredKey {
  readonly environment: string;
  /** A login, or a login prefix followed by `*`. */
  readonly logins: string;
  readonly kind: KeyKind;
}

/** Every kind of key that the grants require, without duplicates, exact logins before patterns. */
export function requiredKeys(config: Config, table: OperationTable): RequiredKey[] {
  const granted = config.callers.flatMap(({ allow }) =>
    allow.flatMap((grant) =>
      expandWildcard(grant.environments, Object.keys(config.environments)).flatMap((environment) => {
        const kinds = kindsOf(table.get(environment) ?? [], grant.operations);
        return grant.logins.flatMap((logins) => kinds.map((kind) => ({ environment, logins, kind })));
      }),
    ),
  );
  const distinct = [...new Map(granted.map((key) => [JSON.stringify(key), key])).values()];
  return [...distinct.filter((key) => !isPattern(key)), ...distinct.filter(isPattern)];
}

export function isPattern({ logins }: RequiredKey): boolean {
  return logins.endsWith('*');
}

function kindsOf(operations: readonly Operation[], granted: readonly string[]): KeyKind[] {
  const names = expandWildcard(
    granted,
    operations.map(({ name }) => name),
  );
  const needed = operations.filter(({ name }) => names.includes(name));
  return [...new Set(needed.map(({ signature }) => methods[signature].kind))];
}

function expandWildcard(granted: readonly string[], all: readonly string[]): readonly string[] {
  return granted.includes('*') ? all : all.filter((name) => granted.includes(name));
}
