import { createServer } from 'node:http';
import { type Listening, listen } from './listening.ts';

const segment = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url');
const namespace = 'payments';
const name = 'countersign';
const uid = 'b0d7a4c2-0000-4000-8000-000000000001';
const subject = `system:serviceaccount:${namespace}:${name}`;

/** The service account of {@link serviceAccountToken}, for a role of Vault's auth method `kubernetes`. */
export const bound = {
  bound_service_account_names: [name],
  bound_service_account_namespaces: [namespace],
};

/** A token with the claims of a pod's. Only the API server can verify it, and this one accepts all. */
export function serviceAccountToken(): string {
  const now = Math.floor(Date.now() / 1000);
  const claims = {
    iss: 'https://kubernetes.default.svc',
    sub: subject,
    aud: ['vault'],
    iat: now,
    nbf: now,
    exp: now + 3600,
    'kubernetes.io': { namespace, serviceaccount: { name, uid } },
  };
  return [segment({ alg: 'RS256', kid: '1' }), segment(claims), 'c2lnbmF0dXJl'].join('.');
}

/** The part of a Kubernetes API server that Vault calls at a login: TokenReview. */
export class KubernetesApi {
  #listening: Listening | undefined;
  #port = 0;

  get address(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** On the same port as before. */
  async listen(): Promise<void> {
    const status = { authenticated: true, user: { username: subject, uid }, audiences: ['vault'] };
    const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', status };
    const server = createServer((request, response) => {
      request.resume();
      response.writeHead(201, { 'Content-Type': 'application/json' }).end(JSON.stringify(review));
    });
    this.#listening = await listen(server, this.#port);
    this.#port = this.#listening.port;
  }

  async close(): Promise<void> {
    await this.#listening?.close();
    this.#listening = undefined;
  }
}
