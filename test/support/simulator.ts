import { type KeyObject, sign as rsaSign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { Secret } from '../../src/secret.ts';
import type { HandledRequest } from '../../src/simulator/journal.ts';
import { type ListenOptions, listenSimulator } from '../../src/simulator/listen.ts';
import { type HttpResponse, post as sendForm } from './forwarding.ts';
import { otherBaseString, otherHmacSha1 } from './oauth-sign.ts';
import { loadScenario } from './scenario.ts';
import { privateKeyOf, publicKeyOf } from './vectors.ts';

type Pair = readonly [name: string, value: string];

/** 2026-01-15 12:00:00 UTC, in milliseconds. */
export const noon = Date.UTC(2026, 0, 15, 12);
export const controlKey = 'AF4B7DE6&with=reserved%2B characters';
export const privateKey = privateKeyOf('rsa-2048-pkcs8.pem');

export const gatewayKeys = {
  controlKeys: [new Secret(controlKey)],
  publicKeys: [publicKeyOf('rsa-2048-public.pem')],
};

interface CountedRequest {
  readonly operation: string;
  /** The login that the request claims. */
  readonly login: string | undefined;
  /** Of the key that made the signature, in the login's list of that kind. */
  readonly keyIndex: number | undefined;
  /** `undefined` for accepted requests. */
  readonly rejection: HandledRequest['rejection'] | undefined;
}

/** Counts the requests for operations. Unlike the journal, it has no bound. */
export class RequestCounter {
  readonly #requests: CountedRequest[] = [];

  /** For a simulator. */
  readonly onHandled = ({ operation, login, rejection, steps }: HandledRequest): void => {
    const keyIndex = steps.find(({ step }) => step === 'signature')?.key?.index;
    if (operation !== undefined) this.#requests.push({ operation, login, keyIndex, rejection });
  };

  /** The number of requests with all of these; `count()` counts all requests. */
  count(filter: Partial<CountedRequest> = {}): number {
    return this.#requests.filter((request) => isDeepStrictEqual({ ...request, ...filter }, request)).length;
  }

  /** The same, but only for requests that passed every check. */
  accepted(filter: Partial<CountedRequest> = {}): number {
    return this.count({ ...filter, rejection: undefined });
  }
}

export type TestSimulator = Awaited<ReturnType<typeof startSimulator>>;

/** The shipped scenario on a free port, with one key of each kind for both logins, at noon. */
export async function startSimulator(options: Partial<ListenOptions> = {}) {
  const seen = new RequestCounter();
  const listening = await listenSimulator({
    scenario: loadScenario(shippedScenario()),
    keys: new Map(['acme', 'beta'].map((login) => [login, gatewayKeys])),
    clock: () => noon,
    onHandled: seen.onHandled,
    port: 0,
    ...options,
  });
  return { ...listening, simulator: { ...listening.simulator, seen } };
}

export function shippedScenario(): string {
  return readFileSync(new URL('../../config/scenario.yaml', import.meta.url), 'utf8');
}

/** A valid request, in which a test changes one thing. */
export interface Draft {
  readonly path: string;
  readonly form: readonly Pair[];
  readonly oauth: readonly Pair[];
  readonly key: string | KeyObject;
}

let nonces = 0;

export function balanceDraft(form: readonly Pair[] = [], login = 'acme'): Draft {
  const path = `/gw/api/v2/get-balance/manager/${login}`;
  return { path, form, oauth: oauthOf('HMAC-SHA1', login), key: controlKey };
}

export function statusDraft(form: readonly Pair[], path = '/gw/api/v4/status/1234', login = 'acme'): Draft {
  return { path, form: [['login', login], ...form], oauth: oauthOf('RSA-SHA256', login), key: privateKey };
}

export function transferDraft(given: readonly Pair[]): Draft {
  const money = [['amount', '12.50'] as const, ['currency', 'EUR'] as const];
  const form = [...given, ...money.filter(([name]) => !given.some(([other]) => other === name))];
  return { path: '/gw/api/v4/transfer/1234', form, oauth: oauthOf('RSA-SHA256', 'acme'), key: privateKey };
}

function oauthOf(method: string, login: string): Pair[] {
  nonces += 1;
  return [
    ['oauth_consumer_key', login],
    ['oauth_nonce', `nonce${nonces}`],
    ['oauth_signature_method', method],
    ['oauth_timestamp', String(noon / 1000)],
    ['oauth_version', '1.0'],
  ];
}

/** The draft with one OAuth parameter changed, before it is signed. */
export function withOAuth(draft: Draft, name: string, value: string): Draft {
  return { ...draft, oauth: draft.oauth.map((pair) => (pair[0] === name ? [name, value] : pair)) };
}

/** Signed by the package oauth-sign (base string, HMAC) and node:crypto (RSA). */
export function signatureOf(baseUrl: string, draft: Draft): string {
  const pairs = [...draft.form, ...draft.oauth];
  const url = `${baseUrl}${draft.path}`;
  if (typeof draft.key === 'string') return otherHmacSha1('POST', url, pairs, draft.key, '');
  return rsaSign('sha256', Buffer.from(otherBaseString('POST', url, pairs)), draft.key).toString('base64');
}

export function headerOf(oauth: readonly Pair[], signature: string): string {
  const fields = [...oauth, ['oauth_signature', signature] as const];
  return `OAuth ${fields.map(([name, value]) => `${name}="${escape(value)}"`).join(', ')}`;
}

export function bodyOf(pairs: readonly Pair[]): string {
  return pairs.map(([name, value]) => `${escape(name)}=${escape(value)}`).join('&');
}

/** RFC 3986, complete for the texts of these tests. */
function escape(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (c) =>
    `%${c.charCodeAt(0).toString(16)}`.toUpperCase(),
  );
}

/** The bytes of a request. */
export interface Wire {
  readonly path: string;
  readonly authorization: string | string[] | undefined;
  readonly body: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export function wireOf(baseUrl: string, draft: Draft): Wire {
  const authorization = headerOf(draft.oauth, signatureOf(baseUrl, draft));
  return { path: draft.path, authorization, body: bodyOf([...draft.form, ...draft.oauth]) };
}

export function send(baseUrl: string, wire: Wire): Promise<HttpResponse> {
  const { path, authorization, body, method = 'POST', headers } = wire;
  const all = { ...(authorization === undefined ? {} : { Authorization: authorization }), ...headers };
  return sendForm(`${baseUrl}${path}`, body, all, { method });
}

export function post(baseUrl: string, draft: Draft): Promise<HttpResponse> {
  return send(baseUrl, wireOf(baseUrl, draft));
}

/** The fields of a form-encoded response, decoded and without their line feeds. */
export function fieldsOf(body: string): Record<string, string> {
  return Object.fromEntries(
    [...new URLSearchParams(body)].map(([name, value]) => [name, value.replace(/\n$/, '')]),
  );
}
