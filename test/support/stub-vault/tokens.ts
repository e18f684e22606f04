import { randomUUID } from 'node:crypto';
import {
  type Backend,
  empty,
  envelope,
  errors,
  permissionDenied,
  type StubRequest,
  type StubResponse,
  seconds,
  text,
  texts,
} from './protocol.ts';

export interface Token {
  readonly id: string;
  readonly policies: readonly string[];
  readonly renewable: boolean;
  readonly createdAt: number;
  /** Seconds of a lease; 0: does not expire. */
  readonly ttl: number;
  readonly maxTtl: number;
  /** Empty for a batch token, which is not stored: it cannot be listed, renewed or revoked. */
  readonly accessor: string;
  /** 0: unlimited. Only told, and not counted. */
  readonly uses: number;
  expiresAt: number;
}

export interface TokenSettings {
  readonly policies: readonly string[];
  readonly ttl: number;
  readonly maxTtl?: number;
  readonly renewable?: boolean;
  readonly id?: string;
  readonly noDefaultPolicy?: boolean;
  readonly uses?: number;
  readonly batch?: boolean;
}

/** A server's default of `max_lease_ttl`. */
const systemMaxTtl = 768 * 3600;

/** Tokens and the auth method `token`. */
export class Tokens {
  readonly #tokens = new Map<string, Token>();

  create(now: number, settings: TokenSettings): Token {
    const {
      policies,
      ttl,
      maxTtl = systemMaxTtl,
      renewable = true,
      id,
      noDefaultPolicy = false,
      uses = 0,
      batch = false,
    } = settings;
    const token: Token = {
      id: id ?? `hvs.${randomUUID()}`,
      policies:
        noDefaultPolicy || policies.includes('root') ? policies : [...new Set(['default', ...policies])],
      renewable: renewable && ttl > 0 && !batch,
      createdAt: now,
      ttl,
      maxTtl,
      accessor: batch ? '' : randomUUID(),
      uses,
      expiresAt: ttl === 0 ? Number.POSITIVE_INFINITY : now + Math.min(ttl, maxTtl) * 1000,
    };
    this.#tokens.set(token.id, token);
    return token;
  }

  /** A known token that has not expired. */
  find(id: string | undefined, now: number): Token | undefined {
    const token = this.#tokens.get(id ?? '');
    return token !== undefined && now < token.expiresAt ? token : undefined;
  }

  /** Number of tokens, without root tokens. */
  get count(): number {
    return [...this.#tokens.values()].filter(({ policies }) => !policies.includes('root')).length;
  }

  revoke(id: string): void {
    this.#tokens.delete(id);
  }

  revokeAll(): void {
    for (const token of this.#tokens.values()) if (!token.policies.includes('root')) this.revoke(token.id);
  }

  readonly backend: Backend = (call) => {
    if (!call.path.startsWith('auth/token/')) return undefined;
    const self = this.find(call.token, call.now);
    if (self === undefined) return permissionDenied;
    switch (`${call.method} ${call.path.slice('auth/token/'.length)}`) {
      case 'POST create':
        return authResponse(this.create(call.now, settingsOf(call)), call.now);
      case 'LIST accessors':
        return envelope({ data: { keys: this.#live(call.now).map(({ accessor }) => accessor) } });
      case 'GET lookup-self':
        return envelope({ data: description(self, call.now) });
      case 'POST renew-self':
        return this.#renew(self, call);
      case 'POST revoke-self':
        if (self.accessor === '') return errors(400, 'batch tokens cannot be revoked');
        this.revoke(self.id);
        return empty;
      case 'POST revoke':
        this.revoke(text(call.body['token']));
        return empty;
      default:
        return errors(404, `unsupported path: ${call.path}`);
    }
  };

  #live(now: number): Token[] {
    return [...this.#tokens.values()].filter(({ accessor, expiresAt }) => accessor !== '' && now < expiresAt);
  }

  #renew(token: Token, { now, body }: StubRequest): StubResponse {
    if (!token.renewable) return errors(400, 'lease is not renewable');
    const end = token.createdAt + token.maxTtl * 1000;
    token.expiresAt = Math.min(now + seconds(body['increment'], token.ttl) * 1000, end);
    return authResponse(token, now);
  }
}

function settingsOf({ body }: StubRequest): TokenSettings {
  const maxTtl = seconds(body['explicit_max_ttl'], 0);
  return {
    policies: texts(body['policies']),
    ttl: seconds(body['ttl'], systemMaxTtl),
    renewable: body['renewable'] !== false,
    noDefaultPolicy: body['no_default_policy'] === true,
    uses: seconds(body['num_uses'], 0),
    ...(maxTtl === 0 ? {} : { maxTtl }),
  };
}

function secondsLeft(token: Token, now: number): number {
  return token.ttl === 0 ? 0 : Math.max(0, Math.floor((token.expiresAt - now) / 1000));
}

export function authResponse(token: Token, now: number, metadata: object = {}): StubResponse {
  const auth = {
    client_token: token.id,
    accessor: token.accessor,
    policies: token.policies,
    token_policies: token.policies,
    metadata,
    lease_duration: secondsLeft(token, now),
    renewable: token.renewable,
    entity_id: '',
    token_type: 'service',
    orphan: true,
    mfa_requirement: null,
    num_uses: token.uses,
  };
  return envelope({ auth });
}

function description(token: Token, now: number): object {
  return {
    id: token.id,
    policies: token.policies,
    creation_time: Math.floor(token.createdAt / 1000),
    creation_ttl: token.ttl,
    ttl: secondsLeft(token, now),
    explicit_max_ttl: 0,
    expire_time: token.ttl === 0 ? null : new Date(token.expiresAt).toISOString(),
    renewable: token.renewable,
    num_uses: token.uses,
    type: 'service',
  };
}
