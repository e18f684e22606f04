import { reveal, Secret } from '../../secret.ts';

/** Wraps every text inside a value in a {@link Secret}, so that fields are hidden from the moment they are read. */
export function hideSecrets(value: unknown): unknown {
  if (typeof value === 'string') return new Secret(value);
  return mapInside(value, hideSecrets);
}

export function hideFields(fields: object): Record<string, unknown> {
  return mapFields(fields, hideSecrets);
}

/** The opposite of {@link hideSecrets}, for requests to Vault and for parsing keys. */
export function revealSecrets(value: unknown): unknown {
  if (value instanceof Secret) return reveal(value);
  return mapInside(value, revealSecrets);
}

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
