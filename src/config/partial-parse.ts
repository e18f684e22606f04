import type { z } from 'zod';
import { entriesOf } from '../util/text.ts';
import { caller, credential } from './schema/caller.ts';
import { environment } from './schema/environment.ts';
import { operationOverride } from './schema/operation.ts';
import { configSchema, type OperationOverride } from './schema.ts';

/** Operations of one layer by name. */
export type Overrides = ReadonlyMap<string, OperationOverride | undefined>;

export type Credential = z.output<typeof credential>;
type Names = readonly (string | undefined)[];

export type Parts = ReturnType<typeof parsePartially>;

/**
 * The configuration in parts for the rules across fields, so that an invalid part does not hide problems in others.
 * `undefined` means that a part is present but invalid.
 */
export function parsePartially(value: unknown) {
  const { proxy, environments, operations, keys, jwtIssuers, callers } = entriesOf(value);
  return {
    proxy: parseOrUndefined(configSchema.shape.proxy, proxy),
    environments: new Map(
      Object.entries(entriesOf(environments)).map(([name, entry]) => [name, environmentParts(entry)]),
    ),
    operations: overrides(operations),
    /** Environments in `keys.vault.transit.mounts`, and their mounts. */
    transitMounts: Object.entries(
      entriesOf(entriesOf(entriesOf(entriesOf(keys)['vault'])['transit'])['mounts']),
    ),
    canary: entriesOf(entriesOf(keys)['rotation'])['canary'] === true,
    /** The `iss` claim by name. */
    jwtIssuers: new Map(
      Object.entries(entriesOf(jwtIssuers)).map(([name, entry]) => [name, entriesOf(entry)['issuer']]),
    ),
    callers: itemsOf(callers).map((entry) => {
      const { name, credentials, allow } = entriesOf(entry);
      return {
        name: parseOrUndefined(caller.shape.name, name),
        credentials: itemsOf(credentials).map((item) => parseOrUndefined(credential, item)),
        allow: itemsOf(allow).map((item) => {
          const { environments, operations } = entriesOf(item);
          return { environments: names(environments), operations: names(operations) };
        }),
      };
    }),
  };
}

function environmentParts(value: unknown) {
  const { baseUrl, allowInsecureHttp, operations, endpoints, canaryEndpoint } = entriesOf(value);
  return {
    baseUrl: parseOrUndefined(environment.shape.baseUrl, baseUrl),
    allowInsecureHttp: allowInsecureHttp === true,
    hasEndpoint: canaryEndpoint !== undefined || Object.keys(entriesOf(endpoints)).length > 0,
    operations: overrides(operations),
  };
}

function overrides(value: unknown): Overrides {
  const entries = Object.entries(entriesOf(value));
  return new Map(entries.map(([name, entry]) => [name, parseOrUndefined(operationOverride, entry)]));
}

function names(value: unknown): Names {
  return itemsOf(value).map((item) => (typeof item === 'string' ? item : undefined));
}

function parseOrUndefined<T extends z.ZodType>(schema: T, value: unknown): z.output<T> | undefined {
  return schema.safeParse(value).data;
}

function itemsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
