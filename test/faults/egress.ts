import { type Behavior, startEgressProxy, type TestEgressProxy } from '../support/egress-proxy.ts';
import { Random } from '../support/random.ts';
import type { Ca } from '../support/stub-vault/certificates.ts';

/** Egress proxies in front of all gateways. */
export interface FaultyEgress {
  /** One with http:, one with https:. */
  readonly urls: readonly string[];
  readonly tunnelOf: TestEgressProxy['tunnelOf'];
  readonly close: () => Promise<void>;
}

const responds =
  (text: string): (() => Behavior) =>
  () => ({ responds: text });
const interim = ['HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early', ' Hints\r\n\r\n'];

/** What a proxy does with a CONNECT request, and how often relative to the others. */
const behaviors: readonly (readonly [weight: number, behavior: (random: Random) => Behavior])[] = [
  [800, () => 'tunnel'],
  [40, () => ({ interim })],
  [80, (random) => ({ cutsAfter: random.int(0, 8_000) })],
  [20, responds('HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n')],
  [15, responds('HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n')],
  [10, responds('garbage\r\n\r\n')],
  [15, responds('HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\nstatus=approved')],
  [10, responds('HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\nstatus=approved')],
  [5, responds('HTTP/1.1 200 OK\r\nVia: ')],
  [5, () => 'silent'],
  [30, () => 'end'],
];

export async function startFaultyEgress(seed: number, ca: Ca): Promise<FaultyEgress> {
  const proxies = [await startEgressProxy(), await startEgressProxy(ca.issue('egress-proxy'))];
  const random = new Random(seed, 'egress');
  for (const proxy of proxies)
    proxy.behavior = () => random.weighted(behaviors, ([weight]) => weight)[1](random);
  return {
    urls: proxies.map(({ url }) => url),
    tunnelOf: (connection) =>
      proxies.map(({ tunnelOf }) => tunnelOf(connection)).find((tunnel) => tunnel !== undefined),
    close: async () => {
      await Promise.all(proxies.map((proxy) => proxy.close()));
    },
  };
}
