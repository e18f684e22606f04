import { z } from 'zod';

const anything = z.record(z.string(), z.unknown());
const replyShape = z.object({
  data: anything.nullish(),
  auth: anything.nullish(),
  wrap_info: anything.nullish(),
});

/** What an administrator does to Vault, through its HTTP API: the stub's and a real server's alike. */
export class VaultAdmin {
  readonly address: string;
  readonly #token: string;

  constructor(address: string, token: string) {
    this.address = address;
    this.#token = token;
  }

  async request(method: string, path: string, body?: object, headers: Record<string, string> = {}) {
    const reply = await fetch(`${this.address}/v1/${path}`, {
      method,
      headers: { 'X-Vault-Token': this.#token, ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await reply.text();
    if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${text}`);
    return replyShape.parse(text === '' ? {} : JSON.parse(text));
  }

  async enable(kind: 'auth' | 'mounts', path: string, options: object): Promise<void> {
    await this.request('POST', `sys/${kind}/${path}`, options);
  }

  /** Reading and writing of secrets under one prefix of a mount. */
  async policy(name: string, mount: string, prefix: string): Promise<void> {
    const path = {
      [`${mount}/data/${prefix}/*`]: { capabilities: ['create', 'read', 'update'] },
      [`${mount}/metadata/${prefix}/*`]: { capabilities: ['read', 'list'] },
    };
    await this.request('POST', `sys/policies/acl/${name}`, { policy: JSON.stringify({ path }) });
  }

  async role(mount: string, name: string, settings: object): Promise<string> {
    await this.request('POST', `auth/${mount}/role/${name}`, settings);
    const { data } = await this.request('GET', `auth/${mount}/role/${name}/role-id`);
    return z.string().parse(data?.['role_id']);
  }

  async secretId(mount: string, role: string): Promise<string> {
    const { data } = await this.request('POST', `auth/${mount}/role/${role}/secret-id`, {});
    return z.string().parse(data?.['secret_id']);
  }

  async wrappedSecretId(mount: string, role: string): Promise<string> {
    const wrap = { 'X-Vault-Wrap-TTL': '60s' };
    const { wrap_info } = await this.request('POST', `auth/${mount}/role/${role}/secret-id`, {}, wrap);
    return z.string().parse(wrap_info?.['token']);
  }

  async token(settings: object): Promise<string> {
    const { auth } = await this.request('POST', 'auth/token/create', settings);
    return z.string().parse(auth?.['client_token']);
  }

  /** How many tokens live; batch tokens, which are kept nowhere, are not among them. */
  async countTokens(): Promise<number> {
    const { data } = await this.request('GET', 'auth/token/accessors?list=true');
    return z.array(z.string()).parse(data?.['keys']).length;
  }

  async revoke(token: string): Promise<void> {
    await this.request('POST', 'auth/token/revoke', { token });
  }

  async put(path: string, data: object, mount = 'secret'): Promise<void> {
    await this.request('POST', `${mount}/data/${path}`, { data });
  }

  async deleteVersions(path: string, versions: readonly number[], mount = 'secret'): Promise<void> {
    await this.request('POST', `${mount}/delete/${path}`, { versions });
  }

  async destroy(path: string, versions: readonly number[], mount = 'secret'): Promise<void> {
    await this.request('PUT', `${mount}/destroy/${path}`, { versions });
  }
}
