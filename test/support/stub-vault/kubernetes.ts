import { type Backend, errors, permissionDenied, text } from './protocol.ts';
import { authResponse, type TokenSettings, type Tokens } from './tokens.ts';

/** The auth method `kubernetes`. The test sets the service account tokens that the cluster accepts. */
export class Kubernetes {
  readonly #tokens: Tokens;
  readonly #roles = new Map<string, TokenSettings>();
  readonly #accepted = new Set<string>();

  constructor(tokens: Tokens) {
    this.#tokens = tokens;
  }

  role(name: string, token: TokenSettings): void {
    this.#roles.set(name, token);
  }

  accept(jwt: string): void {
    this.#accepted.add(jwt);
  }

  reject(jwt: string): void {
    this.#accepted.delete(jwt);
  }

  readonly backend: Backend = ({ method, path, body, now }) => {
    if (method !== 'POST' || path !== 'login') return undefined;
    if (text(body['jwt']) === '') return errors(400, 'missing jwt');
    const role = this.#roles.get(text(body['role']));
    if (role === undefined) return errors(400, `invalid role name "${text(body['role'])}"`);
    if (!this.#accepted.has(text(body['jwt']))) return permissionDenied;
    return authResponse(this.#tokens.create(now, role), now);
  };
}
