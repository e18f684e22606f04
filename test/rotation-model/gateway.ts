import type { IncomingHttpHeaders } from 'node:http';
import type { Random } from '../support/random.ts';
import { rotating, type Traits } from './schedule.ts';

/** A request, with what the gateway will say to it whenever it is sent. */
export interface Form {
  readonly id: number;
  readonly caller: string;
  readonly operation: 'query' | 'payment';
  readonly endpoint: string;
  readonly login: string;
  readonly isMalformed: boolean;
  readonly isUnpermitted: boolean;
  readonly isRefused: boolean;
}

export interface Response {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface Judged {
  /** `undefined`: none comes. */
  readonly response: Response | undefined;
  /** Whether a node verified the signature, and found it right. */
  readonly isVerified: boolean;
}

/** Nodes that each accept some keys of a login, behind a load balancer. */
export class Gateway {
  readonly #traits: Traits;
  readonly #random: Random;
  readonly #nodes: ReadonlySet<string>[];

  constructor(traits: Traits, random: Random) {
    this.#traits = traits;
    this.#random = random;
    this.#nodes = Array.from({ length: traits.nodes }, () => new Set<string>());
  }

  /** From now on a node accepts only these keys of the login that rotates; it accepts none of another login. */
  accept(node: number, keys: Iterable<string>): void {
    this.#nodes[node] = new Set(keys);
  }

  /** The keys that each node accepts. */
  get keys(): string {
    return this.#nodes.map((keys) => [...keys].toSorted().join('')).join();
  }

  /** Whether all nodes accept the same keys. */
  get agrees(): boolean {
    return new Set(this.keys.split(',')).size === 1;
  }

  /** Whether every node accepts the key. */
  accepts(key: string): boolean {
    return this.#nodes.every((keys) => keys.has(key));
  }

  judge(form: Form, key: string): Judged {
    const random = this.#random;
    const { unanswered, rejectsWith401 } = this.#traits;
    if (random.chance(unanswered))
      return { response: pages[random.int(0, pages.length - 1)], isVerified: false };
    const rejection = { response: rejectsWith401 ? unauthorized : forbiddenPage, isVerified: false };
    if (form.isUnpermitted) return rejection;
    if (form.isMalformed) return { response: pickBy(form.id, validationErrors), isVerified: false };
    if (form.login !== rotating || !random.pick(this.#nodes).has(key)) return rejection;
    if (form.isRefused) return { response: pickBy(form.id, refusedWith), isVerified: true };
    return { response: form.operation === 'query' ? balances : approved, isVerified: true };
  }
}

/** The same form always gets the same. */
function pickBy(id: number, responses: readonly Response[]): Response | undefined {
  return responses[id % responses.length];
}

function response(status: number, type: string, body: string): Response {
  return { status, headers: { 'content-type': type }, body: Buffer.from(body) };
}
const form = (status: number, body: string): Response => response(status, 'text/html;charset=utf-8', body);
const page = (status: number): Response => form(status, '<html><body>load balancer</body></html>');

const unauthorized = page(401);
const forbiddenPage = page(403);
const approved = form(200, 'type=async-response\n&serial-number=1\n');
const balances = response(200, 'application/json', '[{"name":"main","amount":"1.00"}]');
const validationErrors = [
  form(200, 'type=validation-error\n&error-code=2\n'),
  form(400, 'type=validation-error\n&error-code=2\n'),
  response(422, 'application/json', '{"type":"validation-error"}'),
];
const refusedWith = [400, 404, 409, 422].map((status) => form(status, 'type=error\n&error-code=7\n'));
const pages = [
  page(429),
  page(302),
  page(503),
  page(200),
  page(404),
  response(200, 'application/json', '{"status":"ok"}'),
  undefined,
];
