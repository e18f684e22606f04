import { createHmac, type KeyObject } from 'node:crypto';
import type { Outcome } from '../errors.ts';
import { orderIdNames } from '../identifiers.ts';
import { entriesOf, parseJson } from '../util/text.ts';

/** What a payment claims: while it is claimed, no other one is sent. */
export interface Order {
  readonly environment: string;
  readonly login: string;
  readonly operation: string;
  readonly orderId: string;
}

type Form = readonly (readonly [name: string, value: string])[];

interface Endpoint {
  readonly endpoint?: string;
  readonly endpointGroup?: string;
}

/**
 * What a store has of an order: made before anything is signed, with an end as soon as that is known, and removed
 * if nothing was sent or the gateway rejected it. One without an end is of a request in flight, or of an instance that died.
 */
export interface Claim {
  /** The ID of the request that made it: 122 random bits, so that a request finds none but its own. */
  readonly requestId: string;
  /** {@link formDigest} of what it sends. */
  readonly form: string;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly end?: ClaimEnd | undefined;
}

export interface ClaimEnd {
  readonly outcome: Exclude<Outcome, 'not-sent'>;
  /** Of the gateway's response. */
  readonly status?: number | undefined;
}

/** The name of an order in a store. Says nothing about it to who has no key. */
export function claimName(key: KeyObject, { environment, login, operation, orderId }: Order): string {
  return digest(key, ['order', environment, login, operation, orderId]);
}

/** Where a payment goes, and its decoded pairs in any order, but for order ID and login: these are in the claim's name. */
export function formDigest(key: KeyObject, { endpoint, endpointGroup }: Endpoint, form: Form): string {
  const others = form.filter(([name]) => name !== 'login' && !orderIdNames.includes(name));
  const pairs = others.map((pair) => JSON.stringify(pair)).toSorted();
  return digest(key, ['form', JSON.stringify([endpoint, endpointGroup]), ...pairs]);
}

/** Public, and the same for the same key: shows that two instances have different ones. */
export function keyId(key: KeyObject): string {
  return digest(key, ['key']).slice(0, 12);
}

function digest(key: KeyObject, parts: readonly string[]): string {
  return createHmac('sha256', key).update(JSON.stringify(parts)).digest('base64url');
}

export function claimText({ requestId, form, at, end }: Claim): string {
  return JSON.stringify({ requestId, form, at, ...end });
}

/** `undefined` for what is no claim. */
export function parseClaim(text: string): Claim | undefined {
  const { requestId, form, at, outcome, status } = entriesOf(parseJson(text));
  if (typeof requestId !== 'string' || typeof form !== 'string' || typeof at !== 'number') return undefined;
  if (!isId.test(requestId) || !isTime(at)) return undefined;
  return { requestId, form, at, end: endOf(outcome, status) };
}

function endOf(outcome: unknown, status: unknown): ClaimEnd | undefined {
  if (outcome !== 'answered' && outcome !== 'unknown') return undefined;
  return { outcome, status: typeof status === 'number' ? status : undefined };
}

/** It is shown to clients and in the log. */
const isId = /^[\w-]{1,64}$/;

function isTime(milliseconds: number): boolean {
  return milliseconds >= 0 && milliseconds <= 8.64e15;
}
