import { parseArgs } from 'node:util';
import { usualConcurrency } from './countersign.ts';

export const usage = `Usage: npm run bench -- [options]

Measures what Countersign costs: against the bare proxy it is built on, and against the machine's own rate of
signatures. Every process of it runs on this machine; nothing else should.

  --quick          about a tenth of the work
  --requests N     requests per round (default 4000); fewer for RSA in proportion to its cost
  --rounds N       rounds, each through all ways in turn; medians over them (default 5)
  --connections N  connections of the load generator, one request at a time on each (default 32)
  --signing N      signing.concurrency of Countersign (default ${usualConcurrency}, as Countersign has it)
  --json FILE      writes every measurement
  --help           prints this`;

export interface Options {
  readonly requests: number;
  readonly rounds: number;
  readonly connections: number;
  readonly signing: number;
  readonly json: string | undefined;
}

/** @throws TypeError for an unknown option and for a number that is none. */
export function readOptions(args: string[]): Options | 'help' {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean', default: false } as const;
  const { values } = parseArgs({
    args,
    options: {
      requests: text,
      rounds: text,
      connections: text,
      signing: text,
      json: text,
      quick: flag,
      help: flag,
    },
  });
  if (values.help) return 'help';
  return {
    requests: numberOf('requests', values.requests ?? (values.quick ? '1000' : '4000')),
    rounds: numberOf('rounds', values.rounds ?? (values.quick ? '2' : '5')),
    connections: numberOf('connections', values.connections ?? '32'),
    signing: numberOf('signing', values.signing ?? String(usualConcurrency)),
    json: values.json,
  };
}

function numberOf(name: string, text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) throw new TypeError(`--${name} must be a number from 1`);
  return number;
}
