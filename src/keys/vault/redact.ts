import { reveal, Secret } from '../../secret.ts';

/** Every text inside a value becomes a {@link Secret}; what Vault keeps for a login is hidden from the start. */
export function hideSecrets(value: unknown): unknown {
  if (typeof value === 'string') return new Secret(value);
  return mapInside(value, hideSecrets);
}

/** The opposite of {@link hideSecrets}: on the way to Vault, or to the parser of keys. */
export function revealSecrets(value: unknown): unknown {
  if (value instanceof Secret) return reveal(value);
  return mapInside(value, revealSecrets);
}

/** {@link revealSecrets} for the fields of a secret. */
export function revealFields(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return mapFields(fields, revealSecrets);
}

function mapInside(value: unknown, change: (inner: unknown) => unknown): unknown {
  if (Array.isArray(value)) return value.map(change);
  if (typeof value !== 'object' || value === null) return value;
  return mapFields(value, change);
}

function mapFields(fields: object, change: (inner: unknown) => unknown): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, inner]) => [name, change(inner)]));
}
