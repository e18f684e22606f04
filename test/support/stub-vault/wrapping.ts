import { randomUUID } from 'node:crypto';
import { type Backend, envelope, errors, type StubResponse, text } from './protocol.ts';

/** Response wrapping: a response is stored under a token that returns it once. */
export class Wrapping {
  readonly #kept = new Map<string, { readonly response: StubResponse; readonly expiresAt: number }>();

  wrap(response: StubResponse, seconds: number, now: number, path: string): StubResponse {
    const token = `hvs.wrap.${randomUUID()}`;
    this.#kept.set(token, { response, expiresAt: now + seconds * 1000 });
    const creation_time = new Date(now).toISOString();
    return envelope({ wrap_info: { token, accessor: '', ttl: seconds, creation_time, creation_path: path } });
  }

  readonly backend: Backend = ({ method, path, token, body, now }) => {
    if (path !== 'sys/wrapping/unwrap' || method !== 'POST') return undefined;
    const id = text(body['token']) === '' ? (token ?? '') : text(body['token']);
    const kept = this.#kept.get(id);
    this.#kept.delete(id);
    if (kept === undefined || now >= kept.expiresAt) {
      return errors(400, 'wrapping token is not valid or does not exist');
    }
    return kept.response;
  };
}
