import { setTimeout as wait } from 'node:timers/promises';
import { increment } from '../support/command.ts';
import { Random } from '../support/random.ts';
import { codeOf } from '../support/raw-http.ts';
import { type Target, type WayName, ways } from './ways.ts';

/** What the attacker, a separate process, gets on its command line. */
export interface Order {
  readonly way: WayName;
  readonly seed: number;
  readonly target: Target;
}

const { way, seed, target }: Order = JSON.parse(process.argv[2] ?? '');
const counts = new Map<string, number>();
const count = (event: string | number): void => increment(counts, String(event));
process.once('SIGTERM', () => {
  process.stdout.write(JSON.stringify(Object.fromEntries(counts)), () => process.exit());
});
// Before its first line, the attack has not begun.
process.stdout.write('\n');

const { clients, prepare } = ways[way];
const random = new Random(seed, way);
const attack = prepare(target, random, count);
async function client(index: number): Promise<void> {
  for (;;) {
    // An error, such as a closed connection, is counted.
    await attack(index).catch((error: unknown) => {
      count(codeOf(error));
      return wait(20);
    });
  }
}
await Promise.all(Array.from({ length: clients }, (_, index) => client(index)));
