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
const nginx = hasNginx ? [['nginx + njs', startNginx] as const] : [];
const proxies = [
  ['http-proxy-middleware', 'unsigned', (url: string) => startScript('bare.ts', url)],
  ['naive app', 'HMAC', (url: string) => startScript('naive.ts', url)],
  ...(['HMAC', 2048, 4096] as const).flatMap((signature) =>
    ([['Countersign', startCountersign], ...nginx] as const).map(
      ([name, start]) => [name, signature, start] as const,
    ),
  ),
] as const;

export function wayThrough(name: string, signature: Signature, proxy: Proxy): Way {
  const { path, body } = typeof signature === 'number' ? status : balance;
  const title = `${name}, ${typeof signature === 'number' ? 'RSA ' : ''}${signature}`;
  return { name: title, signature, proxy, url: proxy.url + path, body };
}

/** Each way has a proxy process of its own, which the caller stops: `running` has them even if one does not start. */
export async function startWays(upstream: string, running: Proxy[]): Promise<Way[]> {
  const ways: Way[] = [
    { name: 'straight', signature: 'unsigned', url: upstream + balance.path, body: balance.body },
  ];
  for (const [name, signature, start] of proxies) {
    const proxy = await start(upstream, signature === 4096 ? 4096 : 2048);
    running.push(proxy);
    ways.push(wayThrough(name, signature, proxy));
  }
  return ways;
}

/**
 * Posts a form and checks what the upstream received: the form, signed with the key of the way. Uses none of our signer.
 *
 * @throws AssertionError
 */
export async function verifyWay({ signature, url, body }: Way, upstream: Upstream): Promise<void> {
  const before = upstream.last();
  ok(await post(url, body), `${url} gave an error`);
  const received = upstream.last();
  ok(received !== undefined && received !== before, 'the upstream did not receive the form');
  if (signature === 'unsigned') return deepEqual(received.body.toString(), body);
  const key =
    signature === 'HMAC' ? { controlKey } : { publicKey: publicKeyOf(`rsa-${signature}-public.pem`) };
  deepEqual(verifyAuthorization(received, key).form, [...new URLSearchParams(body)]);
}
