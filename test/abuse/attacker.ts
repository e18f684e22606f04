import { Random } from '../support/random.ts';
import { Tally } from './tally.ts';
import type { Target } from './target.ts';
import { type WayName, ways } from './ways.ts';

/** What the attacker, a separate process, gets on its command line. */
export interface Order {
  readonly way: WayName;
  readonly seed: number;
  readonly target: Target;
}

const [text = ''] = process.argv.slice(2);
const { way, seed, target }: Order = JSON.parse(text);
const tally = new Tally();
process.once('SIGTERM', () => {
  process.stdout.write(JSON.stringify(tally.counts), () => process.exit());
});
// Before its first line, the attack has not begun.
process.stdout.write('\n');
await ways[way].attack(target, new Random(seed, way), tally);
