import { deepEqual, ok } from 'node:assert/strict';
import { publicKeyOf } from '../support/vectors.ts';
import { verifyAuthorization } from '../support/verify.ts';
import {
  balance,
  controlKey,
  hasNginx,
  type KeyBits,
  type Proxy,
  post,
  startCountersign,
  startNginx,
  startScript,
} from './proxies.ts';
import type { Upstream } from './upstream.ts';

type Signature = 'unsigned' | 'HMAC' | KeyBits;

/** A way of a form to the upstream. */
export interface Way {
  readonly name: string;
  readonly signature: Signature;
  readonly proxy?: Proxy;
  readonly url: string;
  readonly body: string;
}

const status = {
  path: '/gw/api/v4/status/1234',
  body: 'client_orderid=902B4FF5-1A77&login=acme&orderid=6570344',
};

type Start = (upstream: string, bits: KeyBits) => Promise<Proxy>;

/** In the order in which they are measured: what is compared, in succession. */
const proxies: readonly (readonly [name: string, signature: Signature, start: Start])[] = [
  ['http-proxy-middleware', 'unsigned', startScript('bare.ts')],
  ['naive app', 'HMAC', startScript('naive.ts')],
  ['Countersign', 'HMAC', startCountersign],
  ['nginx + njs', 'HMAC', startNginx],
  ['Countersign', 2048, startCountersign],
  ['nginx + njs', 2048, startNginx],
  ['Countersign', 4096, startCountersign],
  ['nginx + njs', 4096, startNginx],
];

/** What the CPU of the others is compared with. */
export const isNaive = ({ name }: Way): boolean => name.startsWith('naive app');

export function wayThrough(name: string, signature: Signature, proxy: Proxy): Way {
  const { path, body } = typeof signature === 'number' ? status : balance;
  const title = `${name}, ${typeof signature === 'number' ? 'RSA ' : ''}${signature}`;
  return { name: title, signature, proxy, url: proxy.url + path, body };
}

/** With RSA, as many requests would take minutes. Most of the code is the same with HMAC. */
export function warmUpWay(way: Way): Way {
  return typeof way.signature === 'number' && way.proxy !== undefined
    ? wayThrough(way.name, 'HMAC', way.proxy)
    : way;
}

/** Each in its own process. The caller stops those that are `running`, also if one does not start. */
export async function startWays(upstream: string, running: Proxy[]): Promise<Way[]> {
  const { path, body } = balance;
  const ways: Way[] = [{ name: 'straight', signature: 'unsigned', url: upstream + path, body }];
  for (const [name, signature, start] of proxies) {
    if (start === startNginx && !hasNginx) continue;
    const proxy = await start(upstream, signature === 4096 ? 4096 : 2048);
    running.push(proxy);
    ways.push(wayThrough(name, signature, proxy));
  }
  return ways;
}

/**
 * Posts a form and checks what the upstream received: the form, signed with the key of the way. Uses none of our signer.
 *
 * @returns the signature method of the received request
 * @throws AssertionError
 */
export async function verifyWay({ signature, url, body }: Way, upstream: Upstream): Promise<string> {
  const before = upstream.last();
  ok(await post(url, body), `${url} gave an error`);
  const received = upstream.last();
  ok(received !== undefined && received !== before, 'the upstream did not receive the form');
  if (signature === 'unsigned') {
    deepEqual(received.body.toString(), body);
    return 'none';
  }
  const key =
    signature === 'HMAC' ? { controlKey } : { publicKey: publicKeyOf(`rsa-${signature}-public.pem`) };
  const { form, oauth } = verifyAuthorization(received, key);
  deepEqual(form, [...new URLSearchParams(body)]);
  return oauth.get('oauth_signature_method') ?? 'none';
}
