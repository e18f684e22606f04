import { type Behavior, startEgressProxy, type TestEgressProxy } from '../support/egress-proxy.ts';
import { Random } from '../support/random.ts';
import type { Ca } from '../support/stub-vault/certificates.ts';

/** Egress proxies in front of all gateways. */
export interface FaultyEgress {
  /** One with http:, one with https:. */
  readonly urls: readonly string[];
  /** How often they did what. */
  readonly counts: ReadonlyMap<string, number>;
  readonly tunnelOf: TestEgressProxy['tunnelOf'];
  readonly close: () => Promise<void>;
}

const gatewayResponse = 'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\nstatus=approved';

/** What a proxy does with a CONNECT request, and how often relative to the others. */
const behaviors: readonly (readonly [
  name: string,
  weight: number,
  behavior: (random: Random) => Behavior,
])[] = [
  ['tunnel', 800, () => 'tunnel'],
  [
    'tunnel after interim responses',
    40,
    () => ({ interim: ['HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early', ' Hints\r\n\r\n'] }),
  ],
  ['tunnel that is cut', 80, (random) => ({ cutsAfter: random.int(0, 8_000) })],
  ['403', 10, () => ({ responds: 'HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n' })],
  [
    '407',
    10,
    () => ({ responds: 'HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n' }),
  ],
  ['502', 15, () => ({ responds: 'HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n' })],
  ['503 that never ends', 5, () => ({ responds: 'HTTP/1.1 503 x\r\nContent-Length: 99999\r\n\r\nno' })],
  ['garbage', 10, () => ({ responds: 'garbage\r\n\r\n' })],
  ['half a head', 5, () => ({ responds: 'HTTP/1.1 200 OK\r\nVia: ' })],
  ['a success, then nothing', 5, () => ({ responds: 'HTTP/1.1 200 OK\r\n\r\n' })],
  ['a success, then a response', 15, () => ({ responds: `HTTP/1.1 200 OK\r\n\r\n${gatewayResponse}` })],
  ['a response like that of a gateway', 10, () => ({ responds: gatewayResponse })],
  ['silence', 5, () => 'silent'],
  ['end', 15, () => 'end'],
  ['reset', 15, () => 'reset'],
];

export async function startFaultyEgress(seed: number, ca: Ca): Promise<FaultyEgress> {
  const counts = new Map<string, number>();
  const proxies = [await startEgressProxy(), await startEgressProxy(ca.issue('egress-proxy'))];
  proxies.forEach((proxy, index) => {
    const random = new Random(seed, 'egress', index);
    const isSecure = index === 1;
    proxy.behavior = () => {
      const [name, , choose] = random.weighted(behaviors, ([, weight]) => weight);
      counts.set(name, (counts.get(name) ?? 0) + 1);
      const behavior = choose(random);
      // TLS cannot be reset.
      return isSecure && behavior === 'reset' ? 'end' : behavior;
    };
  });
  return {
    urls: proxies.map(({ url }) => url),
    counts,
    tunnelOf: (connection) =>
      proxies.map(({ tunnelOf }) => tunnelOf(connection)).find((tunnel) => tunnel !== undefined),
    close: async () => {
      await Promise.all(proxies.map((proxy) => proxy.close()));
    },
  };
}
