import { randomUUID } from 'node:crypto';

/** A request as Vault's router sees it. */
export interface StubRequest {
  /** `POST` also for `PUT`, which Vault treats the same. */
  readonly method: string;
  /** Decoded path after `/v1/`. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: Readonly<Record<string, unknown>>;
  readonly token: string | undefined;
  readonly now: number;
}

export interface StubResponse {
  readonly status: number;
  readonly body?: unknown;
}

/** A backend's response; `undefined` if it does not know the path, so that the router continues. */
export type Backend = (call: StubRequest) => StubResponse | undefined;

/** The parts of Vault's response envelope. */
export interface Parts {
  readonly data?: unknown;
  readonly auth?: unknown;
}

export function envelope(parts: Parts, status = 200): StubResponse {
  const body = {
    request_id: randomUUID(),
    lease_id: '',
    renewable: false,
    lease_duration: 0,
    data: null,
    wrap_info: null,
    warnings: null,
    auth: null,
    ...parts,
  };
  return { status, body };
}

export const empty: StubResponse = { status: 204 };

export function errors(status: number, ...texts: readonly string[]): StubResponse {
  return { status, body: { errors: texts } };
}

export const permissionDenied = errors(403, 'permission denied');
export const notFound = errors(404);

/** `90`, `"90"`, `"90s"`, `"15m"`, `"1h"` -> seconds. */
export function seconds(value: unknown, fallback: number): number {
  if (typeof value === 'number') return value;
  const match = typeof value === 'string' ? /^(\d+)(s|m|h)?$/.exec(value) : null;
  if (match === null) return fallback;
  return Number(match[1]) * ({ s: 1, m: 60, h: 3600 }[match[2] ?? 's'] ?? 1);
}

export function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

export function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}
