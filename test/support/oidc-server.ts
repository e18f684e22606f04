import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type JWK, SignJWT } from 'jose';
import { listen } from './listening.ts';

/** A signing key of an issuer: `jwk` is what it publishes. */
interface IssuerKey {
  readonly kid: string;
  readonly alg: string;
  readonly privateKey: KeyObject;
  readonly jwk: JWK;
}

type KeyAlgorithm = 'RS256' | 'PS256' | 'ES256' | 'ES384' | 'ES512' | 'EdDSA';

const curves: Readonly<Record<string, string>> = { ES256: 'P-256', ES384: 'P-384', ES512: 'P-521' };

export function issuerKey(kid: string, alg: KeyAlgorithm = 'ES256', modulusLength = 2048): IssuerKey {
  const namedCurve = curves[alg];
  const { privateKey, publicKey } =
    namedCurve !== undefined
      ? generateKeyPairSync('ec', { namedCurve })
      : alg === 'EdDSA'
        ? generateKeyPairSync('ed25519')
        : generateKeyPairSync('rsa', { modulusLength });
  return { kid, alg, privateKey, jwk: { ...publicKey.export({ format: 'jwk' }), kid, alg, use: 'sig' } };
}

interface OidcServerOptions {
  /** PEM texts for https. */
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer };
  readonly keys?: readonly IssuerKey[];
}

export async function startOidcServer(options: OidcServerOptions = {}): Promise<OidcServer> {
  const handle: RequestListener = (request, response) => server.handle(request, response);
  const { tls } = options;
  const { port, close } = await listen(
    tls === undefined ? createServer(handle) : createTlsServer(tls, handle),
  );
  const url = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
  const server = new OidcServer(url, options.keys ?? [issuerKey('first')], close);
  return server;
}

/**
 * An OpenID Connect issuer with discovery and a key set. Its keys can be rotated, it can fail in any way, and it knows
 * which requests it received.
 */
export class OidcServer {
  readonly url: string;
  readonly close: () => Promise<void>;
  readonly requests: { readonly path: string; readonly headers: IncomingMessage['headers'] }[] = [];
  discovery: Record<string, unknown>;
  /** The key set. */
  published: unknown = {};
  keys: readonly IssuerKey[] = [];
  respond: RequestListener = (request, response) => this.#respond(request, response);

  constructor(url: string, keys: readonly IssuerKey[], close: () => Promise<void>) {
    this.url = url;
    this.close = close;
    this.discovery = { issuer: url, jwks_uri: `${url}/keys` };
    this.rotate(...keys);
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    this.requests.push({ path: request.url ?? '', headers: request.headers });
    this.respond(request, response);
  }

  /** Publishes these keys and signs with the first one. */
  rotate(...keys: readonly IssuerKey[]): void {
    this.keys = keys;
    this.published = { keys: keys.map(({ jwk }) => jwk) };
  }

  /** Requests for the key set so far. */
  fetches(): number {
    return this.requests.filter(({ path }) => path === '/keys').length;
  }

  /** Responds with an error until {@link recover}. */
  fail(): void {
    this.respond = (_, response) => void response.writeHead(503).end();
  }

  recover(): void {
    this.respond = (request, response) => this.#respond(request, response);
  }

  /** A token of jose. `undefined` removes a claim or a member of the header. */
  sign(claims: object = {}, header: object = {}, key = this.keys[0]): Promise<string> {
    if (key === undefined) throw new Error('the issuer has no key');
    const entries = Object.entries({ ...usualClaims(this.url), ...claims });
    return new SignJWT(Object.fromEntries(entries.filter(([, value]) => value !== undefined)))
      .setProtectedHeader({ alg: key.alg, kid: key.kid, ...header })
      .sign(key.privateKey);
  }

  #respond(request: IncomingMessage, response: ServerResponse): void {
    const documents: Readonly<Record<string, unknown>> = {
      '/.well-known/openid-configuration': this.discovery,
      '/keys': this.published,
    };
    const document = documents[request.url ?? ''];
    response.writeHead(document === undefined ? 404 : 200, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(document ?? {}));
  }
}

/** Of a token that is valid for five minutes. */
export function usualClaims(issuer: string, now = Date.now()): Record<string, unknown> {
  const seconds = Math.floor(now / 1000);
  return { iss: issuer, sub: 'billing', aud: 'countersign', iat: seconds, nbf: seconds, exp: seconds + 300 };
}
