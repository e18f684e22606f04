import { oneOf, runCommand } from '../support/command.ts';
import { compare } from './compare.ts';
import { startUpstream } from './upstream.ts';
import { variants } from './variants.ts';
import { hasNginx, startWays, verifyWay } from './ways.ts';

const usage = `Usage: npm run bench -- [options]

Measures what a request through Countersign costs, beside other ways. Needs Linux, wrk and an idle machine; nginx + njs
is left out where Debian's packages nginx and libnginx-mod-http-js are not installed.

  --quick        measures for a second at a time, in one round: to see that it works, not to know the figures
  --what WHAT    measures instead how the cost grows with parameters, logins, connections and more (growth), what a
                 tunnel through an egress proxy costs (egress), a signature in Vault, whose program VAULT_BIN names
                 (transit), or traces, and receivers that fail (traces)`;

await runCommand(usage, { quick: { type: 'boolean' }, what: { type: 'string' } }, async ({ quick, what }) => {
  const options = quick
    ? { rounds: 1, seconds: 1, warmUpRequests: 0 }
    : { rounds: 5, seconds: 5, warmUpRequests: 100_000 };
  const upstream = await startUpstream();
  const ends: (() => unknown)[] = [upstream.stop];
  try {
    if (what === undefined) {
      const ways = await startWays(upstream.url);
      ends.push(...ways.map(({ stop }) => stop));
      for (const way of ways) console.log(`${way.name}: verified ${await verifyWay(way, upstream)}`);
      if (!hasNginx) console.log('nginx + njs: not installed');
      console.log(`\n${await compare(ways, options)}`);
    } else {
      const name = oneOf('what', ['growth', 'egress', 'transit', 'traces'] as const, what);
      for await (const ways of variants[name](upstream.url, ends)) console.log(await compare(ways, options));
    }
  } finally {
    for (const end of ends.toReversed()) await end();
  }
  return true;
});
