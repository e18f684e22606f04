import { decide } from '../../auth/authorize.ts';
import type { Config } from '../../config/schema.ts';
import type { OperationTable } from '../../gateway/operations.ts';
import { type KeyKind, methods } from '../../oauth1/methods.ts';

export interface RequiredKey {
  readonly environment: string;
  /** A login, or a login prefix followed by `*`. */
  readonly logins: string;
  readonly kind: KeyKind;
}

/** Every kind of key that the grants require, without duplicates, exact logins before patterns. */
export function requiredKeys({ callers }: Config, operations: OperationTable): RequiredKey[] {
  const grants = callers.flatMap((caller) => caller.allow.map((grant) => ({ ...caller, allow: [grant] })));
  const granted = grants.flatMap((caller) =>
    caller.allow.flatMap(({ logins }) =>
      [...operations].flatMap(([environment, own]) =>
        logins.flatMap((login) =>
          own
            .filter(({ name }) => decide(caller, { environment, operation: name, login }) === 'allowed')
            .map(({ signature }) => ({ environment, logins: login, kind: methods[signature].kind })),
        ),
      ),
    ),
  );
  const distinct = [...new Map(granted.map((key) => [JSON.stringify(key), key])).values()];
  return [...distinct.filter((key) => !isPattern(key)), ...distinct.filter(isPattern)];
}

export function isPattern({ logins }: RequiredKey): boolean {
  return logins.endsWith('*');
}
