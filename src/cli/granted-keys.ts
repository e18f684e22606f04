import type { Config } from '../config/shape.ts';
import { operationsOf } from '../gateway/operations.ts';
import { type KeyKind, methods } from '../oauth1/methods.ts';

/** A key that some caller's grants need. */
export interface GrantedKey {
  readonly environment: string;
  /** A login, or the beginning of logins and `*`. */
  readonly logins: string;
  readonly kind: KeyKind;
}

/** Every kind of key that the grants need, each once, exact logins before patterns. */
export function grantedKeys(config: Config): GrantedKey[] {
  const granted = config.callers.flatMap(({ allow }) =>
    allow.flatMap((grant) =>
      chosen(grant.environments, Object.keys(config.environments)).flatMap((environment) => {
        const kinds = kindsOf(config, environment, grant.operations);
        return grant.logins.flatMap((logins) => kinds.map((kind) => ({ environment, logins, kind })));
      }),
    ),
  );
  const distinct = [...new Map(granted.map((key) => [JSON.stringify(key), key])).values()];
  return [...distinct.filter((key) => !isPattern(key)), ...distinct.filter(isPattern)];
}

export function isPattern({ logins }: GrantedKey): boolean {
  return logins.endsWith('*');
}

function kindsOf(config: Config, environment: string, granted: readonly string[]): KeyKind[] {
  const operations = operationsOf(config, environment);
  const names = chosen(
    granted,
    operations.map(({ name }) => name),
  );
  const needed = operations.filter(({ name }) => names.includes(name));
  return [...new Set(needed.map(({ signature }) => methods[signature].kind))];
}

function chosen(granted: readonly string[], all: readonly string[]): readonly string[] {
  return granted.includes('*') ? all : all.filter((name) => granted.includes(name));
}
