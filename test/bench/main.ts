import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { measureEgress } from './egress.ts';
import { measureGrowth } from './growth.ts';
import { warmUp } from './measure.ts';
import { hasNginx, type Proxy } from './proxies.ts';
import { chart, report } from './report.ts';
import { measureRound, type Round } from './round.ts';
import { measureTraces } from './traces.ts';
import { measureTransit } from './transit.ts';
import { startUpstream } from './upstream.ts';
import { startWays, verifyWay, warmUpWay } from './ways.ts';

const usage = `Usage: npm run bench -- [options]

Measures what a request through Countersign costs, beside other ways. Needs Linux, wrk and an idle machine; nginx + njs
is left out where Debian's packages nginx and libnginx-mod-http-js are not installed.

  --quick       measures for a second at a time, in one round: to see that it works, not to know the figures
  --growth      measures instead how the cost grows with parameters, logins, connections and more
  --egress      measures instead what a tunnel through an egress proxy costs
  --transit     measures instead what a signature in Vault costs; VAULT_BIN names the program
  --traces      measures instead what traces cost, and receivers that fail
  --write-docs  writes the findings into docs/performance.md and docs/performance.svg
  --help        prints this`;

const flag = { type: 'boolean', default: false } as const;
const { values } = parseArgs({
  options: {
    quick: flag,
    growth: flag,
    egress: flag,
    transit: flag,
    traces: flag,
    'write-docs': flag,
    help: flag,
  },
});
const [warmUpRequests, rounds, seconds] = values.quick ? [0, 1, 1] : [100_000, 5, 5];
const page = new URL('../../docs/performance.md', import.meta.url);
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

function publish(part: 'ways' | 'growth' | 'egress' | 'transit' | 'traces', findings: string): void {
  console.log(`\n${findings}`);
  if (!values['write-docs']) return;
  const between = new RegExp(`(?<=<!-- benchmark: ${part} -->\n)[^]*?(?=<!-- /benchmark -->)`);
  const text = readFileSync(page, 'utf8');
  if (!between.test(text)) throw new Error(`docs/performance.md has no markers for ${part}`);
  writeFileSync(page, text.replace(between, `\n${findings}\n\n`));
}

try {
  if (values.help) {
    console.log(usage);
  } else if (values.growth) {
    publish(
      'growth',
      await measureGrowth(upstream.url, { seconds, sizes: values.quick ? 1 : 4, warmUpRequests }),
    );
  } else if (values.egress) {
    publish('egress', await measureEgress({ rounds, seconds, warmUpRequests }));
  } else if (values.transit) {
    publish('transit', await measureTransit({ rounds, seconds, warmUpRequests }));
  } else if (values.traces) {
    publish('traces', await measureTraces({ rounds, seconds, warmUpRequests }));
  } else {
    const measured = await measureRounds();
    publish('ways', report(measured, seconds));
    if (values['write-docs']) writeFileSync(new URL('performance.svg', page), chart(measured));
  }
} finally {
  await upstream.stop();
}
