import { STATUS_CODES } from 'node:http';
import { errorTable } from '../errors.ts';
import type { Routes } from '../gateway/router.ts';

/** A configuration with its operations. */
export type ConfiguredNames = Pick<Routes, 'config' | 'operations'>;

/** The configured names, which alone may be label values, whatever a request contains. */
export class Labels {
  readonly #environments = new Set<string>();
  readonly #operations = new Set<string>();
  readonly #callers = new Set<string>();
  readonly #issuers = new Set<string>();

  /** Adds the names of a configuration. Earlier ones stay valid, since requests in flight may still use them. */
  allow({ config, operations }: ConfiguredNames): void {
    for (const [environment, list] of operations) {
      this.#environments.add(environment);
      for (const { name } of list) this.#operations.add(name);
    }
    for (const { name } of config.callers) this.#callers.add(name);
    for (const issuer of Object.keys(config.jwtIssuers)) this.#issuers.add(issuer);
  }

  /** All that were ever configured. */
  environments(): Iterable<string> {
    return this.#environments;
  }

  environment(name: string | undefined) {
    return { environment: toKnownLabel(this.#environments, name) };
  }

  caller(name: string | undefined) {
    return { caller: toKnownLabel(this.#callers, name) };
  }

  issuer(name: string | undefined) {
    return { issuer: toKnownLabel(this.#issuers, name) };
  }

  route(environment: string | undefined, operation: string | undefined) {
    return {
      environment: toKnownLabel(this.#environments, environment),
      operation: toKnownLabel(this.#operations, operation),
    };
  }
}

/** `none` if absent, `other` if not in the set. */
export function toKnownLabel(known: ReadonlySet<string>, value: string | undefined): string {
  if (value === undefined) return 'none';
  return known.has(value) ? value : 'other';
}

const statuses: ReadonlySet<string> = new Set([
  ...Object.keys(STATUS_CODES),
  ...Object.values(errorTable).map(({ status }) => String(status)),
]);

/** A registered HTTP status, or one that Countersign uses. */
export function statusLabel(status: number | undefined): string {
  return toKnownLabel(statuses, status === undefined ? undefined : String(status));
}
