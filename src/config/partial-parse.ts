import type { z } from 'zod';
import { entriesOf } from '../util/text.ts';
import { caller, credential } from './schema/caller.ts';
import { environment } from './schema/environment.ts';
import { operationOverride } from './schema/operation.ts';
import { configSchema } from './schema.ts';

/** Operations of one layer by name. */
export type Overrides = ReturnType<typeof overridesIn>;

export type Credential = z.output<typeof credential>;

export type Parts = ReturnType<typeof parsePartially>;

/**
 * The configuration in parts for the rules across fields, so that an invalid part does not hide problems in others.
 * `undefined` means that a part is present but invalid.
 */
export function parsePartially(value: unknown) {
  const { proxy, environments, operations, keys, jwtIssuers, callers } = entriesOf(value);
  const { vault, rotation } = entriesOf(keys);
  return {
    proxy: configSchema.shape.proxy.safeParse(proxy).data,
    environments: byName(environments, (entry) => {
      const { baseUrl, allowInsecureHttp, operations, endpoints, canaryEndpoint } = entriesOf(entry);
      return {
        baseUrl: environment.shape.baseUrl.safeParse(baseUrl).data,
        allowInsecureHttp: allowInsecureHttp === true,
        hasEndpoint: canaryEndpoint !== undefined || Object.keys(entriesOf(endpoints)).length > 0,
        operations: overridesIn(operations),
      };
    }),
    operations: overridesIn(operations),
    /** Environments in `keys.vault.transit.mounts`, and their mounts. */
    transitMounts: byName(entriesOf(entriesOf(vault)['transit'])['mounts'], (mount) => mount),
    canary: entriesOf(rotation)['canary'] === true,
    /** The `iss` claim by name. */
    jwtIssuers: byName(jwtIssuers, (entry) => textOrUndefined(entriesOf(entry)['issuer'])),
    callers: itemsOf(callers).map((entry) => {
      const { name, credentials, allow } = entriesOf(entry);
      return {
        name: caller.shape.name.safeParse(name).data,
        credentials: itemsOf(credentials).map((item) => credential.safeParse(item).data),
        allow: itemsOf(allow)
          .map(entriesOf)
          .map(({ environments, operations }) => ({
            environments: itemsOf(environments).map(textOrUndefined),
            operations: itemsOf(operations).map(textOrUndefined),
          })),
      };
    }),
  };
}

function overridesIn(value: unknown) {
  return byName(value, (entry) => operationOverride.safeParse(entry).data);
}

function byName<T>(value: unknown, partOf: (entry: unknown) => T): ReadonlyMap<string, T> {
  return new Map(Object.entries(entriesOf(value)).map(([name, entry]) => [name, partOf(entry)]));
}

function itemsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function textOrUndefined(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
