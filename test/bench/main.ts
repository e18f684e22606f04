import { parseArgs } from 'node:util';
import { measureEgress } from './egress.ts';
import { measureGrowth } from './growth.ts';
import { warmUp } from './measure.ts';
import { hasNginx, type Proxy } from './proxies.ts';
import { report } from './report.ts';
import { measureRound, type Round } from './round.ts';
import { measureTraces } from './traces.ts';
import { measureTransit } from './transit.ts';
import { startUpstream } from './upstream.ts';
import { startWays, verifyWay, warmUpWay } from './ways.ts';

const usage = `Usage: npm run bench -- [options]

Measures what a request through Countersign costs, beside other ways. Needs Linux, wrk and an idle machine; nginx + njs
is left out where Debian's packages nginx and libnginx-mod-http-js are not installed.

  --quick    measures for a second at a time, in one round: to see that it works, not to know the figures
  --growth   measures instead how the cost grows with parameters, logins, connections and more
  --egress   measures instead what a tunnel through an egress proxy costs
  --transit  measures instead what a signature in Vault costs; VAULT_BIN names the program
  --traces   measures instead what traces cost, and receivers that fail
  --help     prints this`;

const flag = { type: 'boolean', default: false } as const;
const { values } = parseArgs({
  options: {
    quick: flag,
    growth: flag,
    egress: flag,
    transit: flag,
    traces: flag,
    help: flag,
  },
});
const [warmUpRequests, rounds, seconds] = values.quick ? [0, 1, 1] : [100_000, 5, 5];
const upstream = await startUpstream();

async function measureRounds(): Promise<Round[]> {
  const running: Proxy[] = [];
  try {
    const ways = await startWays(upstream.url, running);
    for (const way of ways) console.log(`${way.name}: verified ${await verifyWay(way, upstream)}`);
    if (!hasNginx) console.log('nginx + njs: not installed');
    for (const way of ways) await warmUp(warmUpWay(way), warmUpRequests);
    const measured: Round[] = [];
    while (measured.length < rounds) measured.push(await measureRound(ways, seconds));
    return measured;
  } finally {
    for (const proxy of running) await proxy.stop();
  }
}

const print = (findings: string): void => console.log(`\n${findings}`);

try {
  if (values.help) {
    console.log(usage);
  } else if (values.growth) {
    print(await measureGrowth(upstream.url, { seconds, sizes: values.quick ? 1 : 4, warmUpRequests }));
  } else if (values.egress) {
    print(await measureEgress({ rounds, seconds, warmUpRequests }));
  } else if (values.transit) {
    print(await measureTransit({ rounds, seconds, warmUpRequests }));
  } else if (values.traces) {
    print(await measureTraces({ rounds, seconds, warmUpRequests }));
  } else {
    print(report(await measureRounds(), seconds));
  }
} finally {
  await upstream.stop();
}
