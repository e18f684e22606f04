import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { findProgram } from '../support/find-program.ts';

export interface Cores {
  /** The beginning of a command line that runs on the attacker's core. */
  readonly attacker: readonly string[];
  /** Where everything runs. */
  readonly description: string;
}

/** Puts this process, and what it starts from now on, on the last core, and leaves the first one to the attacker. */
export function separateCores(): Cores {
  if (findProgram('taskset') === undefined) return together('the program taskset is missing');
  const list = /Cpus_allowed_list:\s+(\S+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '';
  const [first = '', last = ''] = [/^\d+/, /\d+$/].map((end) => end.exec(list)?.[0]);
  if (first === last) return together(`there is only core ${first}`);
  execFileSync('taskset', ['-a', '-p', '-c', last, String(process.pid)], { stdio: 'ignore' });
  return {
    attacker: ['taskset', '-c', first],
    description: `attacker on core ${first}; process, victim and gateway on core ${last}`,
  };
}

function together(why: string): Cores {
  return {
    attacker: [],
    description: `NOT separated, ${why}: the attacker takes time from the process and the victim`,
  };
}
