import { createPublicKey, type KeyObject } from 'node:crypto';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { text as textOf } from 'node:stream/consumers';
import { z } from 'zod';

const transitKeyShape = z.object({
  latest_version: z.number(),
  keys: z.record(z.string(), z.object({ public_key: z.string() })),
});

const anything = z.record(z.string(), z.unknown());
const responseSchema = z.object({
  data: anything.nullish(),
  auth: anything.nullish(),
});

/** A Vault administrator, through the HTTP API of the stub or a real server. */
export class VaultAdmin {
  readonly address: string;
  readonly #token: string;

  constructor(address: string, token: string) {
    this.address = address;
    this.#token = token;
  }

  async request(method: string, path: string, body?: object) {
    const { status, text } = await this.send(method, path, body);
    if (status < 200 || status > 299) throw new Error(`${method} ${path}: ${status} ${text}`);
    return responseSchema.parse(text === '' ? {} : JSON.parse(text));
  }

  /** A request whose response may be anything. */
  async send(method: string, path: string, body?: object) {
    const options = { method, headers: { 'X-Vault-Token': this.#token }, agent: false };
    const request = httpRequest(`${this.address}/v1/${path}`, options);
    request.end(body === undefined ? undefined : JSON.stringify(body));
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      request.once('response', resolve).once('error', reject);
    });
    return { status: response.statusCode ?? 0, text: await textOf(response) };
  }

  async enable(kind: 'auth' | 'mounts', path: string, options: object): Promise<void> {
    await this.request('POST', `sys/${kind}/${path}`, options);
  }

  /** Reading and writing of the keys of logins, and signing. */
  async policy(name: string): Promise<void> {
    const path = {
      'secret/data/gateway/*': { capabilities: ['create', 'read', 'update'] },
      'secret/metadata/gateway/*': { capabilities: ['read', 'list'] },
      'transit/keys/*': { capabilities: ['read'] },
      'transit/sign/*': { capabilities: ['update'] },
    };
    await this.policyText(name, JSON.stringify({ path }));
  }

  /** @param policy in JSON; in HCL too for a real server */
  async policyText(name: string, policy: string): Promise<void> {
    await this.request('POST', `sys/policies/acl/${name}`, { policy });
  }

  async role(mount: string, name: string, settings: object): Promise<string> {
    await this.request('POST', `auth/${mount}/role/${name}`, settings);
    const { data } = await this.request('GET', `auth/${mount}/role/${name}/role-id`);
    return z.string().parse(data?.['role_id']);
  }

  /** @param settings such as `num_uses` and `ttl` */
  async secretId(mount: string, role: string, settings: object = {}): Promise<string> {
    const { data } = await this.request('POST', `auth/${mount}/role/${role}/secret-id`, settings);
    return z.string().parse(data?.['secret_id']);
  }

  async token(settings: object): Promise<string> {
    const { auth } = await this.request('POST', 'auth/token/create', settings);
    return z.string().parse(auth?.['client_token']);
  }

  /** Number of valid tokens, without batch tokens, which Vault does not store. */
  async countTokens(): Promise<number> {
    const { data } = await this.request('GET', 'auth/token/accessors?list=true');
    return z.array(z.string()).parse(data?.['keys']).length;
  }

  async revoke(token: string): Promise<void> {
    await this.request('POST', 'auth/token/revoke', { token });
  }

  /** Revokes all tokens of an auth method. */
  async revokeAll(mount: string): Promise<void> {
    await this.request('POST', `sys/leases/revoke-prefix/auth/${mount}`, {});
  }

  async put(path: string, data: object): Promise<void> {
    await this.request('POST', `secret/data/${path}`, { data });
  }

  /** A key of 2048 bits, or a new version of it, in the engine mounted at `transit`. @returns its newest public key */
  async newTransitKey(name: string): Promise<KeyObject> {
    const path = `transit/keys/${name}`;
    const exists = (await this.send('GET', path)).status === 200;
    await this.request('POST', exists ? `${path}/rotate` : path, { type: 'rsa-2048' });
    const { data } = await this.request('GET', path);
    const { latest_version, keys } = transitKeyShape.parse(data);
    return createPublicKey(keys[latest_version]?.public_key ?? '');
  }

  async deleteVersions(path: string, versions: readonly number[]): Promise<void> {
    await this.request('POST', `secret/delete/${path}`, { versions });
  }

  async destroy(path: string, versions: readonly number[]): Promise<void> {
    await this.request('PUT', `secret/destroy/${path}`, { versions });
  }
}
