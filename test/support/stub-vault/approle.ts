import { randomUUID } from 'node:crypto';
import {
  type Backend,
  empty,
  envelope,
  errors,
  notFound,
  type StubRequest,
  type StubResponse,
  seconds,
  text,
  texts,
} from './protocol.ts';
import { authResponse, type TokenSettings, type Tokens } from './tokens.ts';

interface Role {
  readonly roleId: string;
  readonly token: TokenSettings;
  readonly secretIdUses: number;
  /** How often each can still be used. */
  readonly secretIds: Map<string, number>;
}

/** The auth method `approle`, mounted at `auth/{mount}`. */
export class AppRole {
  readonly #tokens: Tokens;
  readonly #roles = new Map<string, Role>();

  constructor(tokens: Tokens) {
    this.#tokens = tokens;
  }

  /** `path` without the mount. */
  readonly backend: Backend = (call) => {
    if (call.path === 'login') return this.#logIn(call);
    const [, name = '', rest = ''] = /^role\/([^/]+)(?:\/(.+))?$/.exec(call.path) ?? [];
    if (name === '') return undefined;
    if (rest === '' && call.method === 'POST') return this.#writeRole(name, call);
    const role = this.#roles.get(name);
    if (role === undefined) return notFound;
    if (rest === 'role-id' && call.method === 'GET') return envelope({ data: { role_id: role.roleId } });
    if (rest === 'secret-id' && call.method === 'POST') return this.#newSecretId(role, call);
    return undefined;
  };

  #writeRole(name: string, { body }: StubRequest): StubResponse {
    const maxTtl = seconds(body['token_max_ttl'], 0);
    const token = {
      policies: texts(body['token_policies']),
      // A periodic token gets a lease of one period with each renewal, without a limit.
      ttl: seconds(body['token_period'] ?? body['token_ttl'], 3600),
      uses: seconds(body['token_num_uses'], 0),
      batch: body['token_type'] === 'batch',
      noDefaultPolicy: body['token_no_default_policy'] === true,
      ...(maxTtl === 0 ? {} : { maxTtl }),
    };
    this.#roles.set(name, {
      roleId: this.#roles.get(name)?.roleId ?? randomUUID(),
      token,
      secretIdUses: seconds(body['secret_id_num_uses'], 0),
      secretIds: this.#roles.get(name)?.secretIds ?? new Map<string, number>(),
    });
    return empty;
  }

  #newSecretId(role: Role, { body }: StubRequest): StubResponse {
    const id = randomUUID();
    const uses = seconds(body['num_uses'], role.secretIdUses);
    role.secretIds.set(id, uses === 0 ? Number.POSITIVE_INFINITY : uses);
    return envelope({ data: { secret_id: id, secret_id_accessor: randomUUID(), secret_id_num_uses: uses } });
  }

  #logIn({ body, now }: StubRequest): StubResponse {
    const role = [...this.#roles.values()].find(({ roleId }) => roleId === text(body['role_id']));
    const secretId = text(body['secret_id']);
    const usesLeft = role?.secretIds.get(secretId) ?? 0;
    if (role === undefined || usesLeft < 1) return errors(400, 'invalid role or secret ID');
    role.secretIds.set(secretId, usesLeft - 1);
    return authResponse(this.#tokens.create(now, role.token), now);
  }
}
