import { spawnSync } from 'node:child_process';
import { it } from '@jest/globals';

export interface Ran {
  readonly status: number | null;
  /** Standard output and standard error. */
  readonly output: string;
}

/** Runs `promtool` (Debian package `prometheus`). */
export function promtool(args: readonly string[], input = ''): Ran {
  const { status, stdout, stderr } = spawnSync('promtool', args, { input, encoding: 'utf8' });
  return { status, output: `${stdout}${stderr}` };
}

/** `it` where the program is installed; else a skipped test, and a line that says so. */
export function itWith(program: 'promtool' | 'prometheus'): typeof it | typeof it.skip {
  const found = spawnSync(program, ['--version']).error === undefined;
  if (!found) process.stderr.write(`skipped: ${program} is not installed (Debian package: prometheus)\n`);
  return found ? it : it.skip;
}
