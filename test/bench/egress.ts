import { startEgressProxy } from '../support/egress-proxy.ts';
import { Folder } from '../support/folder.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { measure, warmUp, watchOthers } from './measure.ts';
import { startCountersign } from './proxies.ts';
import { figure, percent, table } from './report.ts';
import { startUpstream } from './upstream.ts';
import { type Way, wayThrough } from './ways.ts';

interface EgressOptions {
  readonly rounds: number;
  readonly seconds: number;
  readonly warmUpRequests: number;
}

/**
 * HMAC over TLS with the gateway, directly and through egress proxies, side by side in each round. Queries share
 * tunnels; with `keepAlive: false` each has its own, as a payment has.
 */
export async function measureEgress({ rounds, seconds, warmUpRequests }: EgressOptions): Promise<string> {
  const folder = new Folder();
  const ca = new Ca(folder.path, 'ca');
  const upstream = await startUpstream(ca.issue('gateway'));
  const [plain, secure] = [await startEgressProxy(), await startEgressProxy(ca.issue('egress-proxy'))];
  const ends: (() => unknown)[] = [
    () => plain.close(),
    () => secure.close(),
    upstream.stop,
    () => folder.remove(),
  ];
  const routes = {
    directly: {},
    'through a tunnel': { egressProxy: { url: plain.url } },
    'through a tunnel, TLS to the proxy': { egressProxy: { url: secure.url, caFile: ca.file } },
  };
  const disturbance = watchOthers();
  try {
    const ways: Way[] = [];
    for (const keepAlive of [true, false]) {
      for (const [route, fields] of Object.entries(routes)) {
        const sandbox = { baseUrl: upstream.url, product: 'gw', caFile: ca.file, keepAlive, ...fields };
        const proxy = await startCountersign(upstream.url, 2048, { environments: { sandbox } });
        ends.unshift(proxy.stop);
        const name = `${keepAlive ? 'shared connections' : 'a connection each'}, ${route}`;
        ways.push({ ...wayThrough('Countersign', 'HMAC', proxy), name });
      }
    }
    for (const way of ways) await warmUp(way, warmUpRequests, { maxSeconds: 60 });
    const cpu = new Map(ways.map(({ name }) => [name, [] as number[]]));
    for (let round = 0; round < rounds; round += 1) {
      for (const way of ways) cpu.get(way.name)?.push((await measure(way, { seconds, connections: 32 })).cpu);
    }
    const rows = [...cpu].map(([name, values]) => ({
      way: name,
      'CPU, µs': figure(values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0),
      'each round': values.map(figure).join(' '),
    }));
    return `Other processes and the hypervisor used ${percent(disturbance())} of the CPU.\n\n${table(rows)}`;
  } finally {
    for (const end of ends) await end();
  }
}
