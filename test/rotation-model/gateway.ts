import type { Random } from '../support/random.ts';
import { type Form, rotating, type Traits } from './schedule.ts';

export interface Response {
  readonly status: number;
  readonly headers: { readonly 'content-type': string };
  readonly body: Buffer;
}

export interface Judged {
  /** `undefined`: none comes. */
  readonly response: Response | undefined;
  /** Whether a node verified the signature, and found it right. */
  readonly isVerified: boolean;
}

/** Nodes that each accept some keys of the login that rotates, and none of another one, behind a load balancer. */
export class Gateway {
  readonly #traits: Traits;
  readonly #random: Random;
  readonly #nodes: ReadonlySet<string>[];

  constructor(traits: Traits, random: Random) {
    this.#traits = traits;
    this.#random = random;
    this.#nodes = Array.from({ length: traits.nodes }, () => new Set('A'));
  }

  /** From now on a node accepts only these keys. */
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
    if (random.chance(this.#traits.unanswered)) return { response: random.pick(pages)(), isVerified: false };
    if (form.isUnpermitted) return { response: rejection, isVerified: false };
    if (form.isMalformed) return { response: pickBy(form.id, validationErrors), isVerified: false };
    if (form.login !== rotating || !random.pick(this.#nodes).has(key))
      return { response: rejection, isVerified: false };
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
const formOf = (status: number, body: string): Response => response(status, 'text/html;charset=utf-8', body);
const page = (status: number): Response => formOf(status, '<html><body>load balancer</body></html>');

const rejection = page(403);
const approved = formOf(200, 'type=async-response\n&serial-number=1\n');
const balances = response(200, 'application/json', '[{"name":"main","amount":"1.00"}]');
const validationErrors = [200, 400].map((status) => formOf(status, 'type=validation-error\n&error-code=2\n'));
const refusedWith = [400, 404, 409, 422].map((status) => formOf(status, 'type=error\n&error-code=7\n'));
const pages = [() => undefined, ...[429, 302, 503, 200, 404].map((status) => () => page(status))];
