import { writeFileSync } from 'node:fs';
import { type Child, startChild } from './child.ts';
import { startCountersign } from './countersign.ts';
import { type Options, readOptions, usage } from './options.ts';
import { report } from './report.ts';
import { measureRound, type Round, type RoundPlan } from './round.ts';
import { type Place, waysThrough } from './scenarios.ts';
import { setting } from './setting.ts';

/** Starts every process, measures, stops them. The first, shorter round is for warming up and is dropped. */
async function bench(options: Options): Promise<readonly Round[]> {
  const running: { stop(): Promise<void> }[] = [];
  const start = (peer: string, ...args: string[]): Child => {
    const child = startChild(new URL(`peers/${peer}.ts`, import.meta.url), { args });
    running.push(child);
    return child;
  };
  try {
    const upstream = await placeOf(start('upstream'));
    const bare = await placeOf(start('bare', upstream.url));
    const countersign = await startCountersign(upstream.url, options.signing);
    running.push(countersign);
    const plan: RoundPlan = {
      ...options,
      ways: waysThrough(upstream, bare, countersign),
      load: start('load'),
      upstream: upstream.child,
      signatures: start('signatures'),
    };
    await measureRound({ ...plan, requests: Math.ceil(options.requests / 2) });
    const rounds: Round[] = [];
    while (rounds.length < options.rounds) rounds.push(await measureRound(plan));
    return rounds;
  } finally {
    await Promise.all(running.map((child) => child.stop()));
  }
}

async function placeOf(child: Child): Promise<Place> {
  return { child, url: await child.ask<string>({ ask: 'url' }) };
}

const options = readOptions(process.argv.slice(2));
if (options === 'help') {
  console.log(usage);
} else {
  const rounds = await bench(options);
  console.log(`${setting(options)}\n\n${report(rounds, options.signing)}`);
  if (options.json !== undefined) {
    writeFileSync(options.json, JSON.stringify({ setting: setting(options), options, rounds }, undefined, 2));
  }
}
