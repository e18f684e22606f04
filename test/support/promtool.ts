import { spawnSync } from 'node:child_process';
import { describe, it } from '@jest/globals';

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
export function itWith(program: 'promtool'): typeof it | typeof it.skip {
  return isInstalled(program) ? it : it.skip;
}

/** The same for a group of tests. */
export function describeWith(program: 'prometheus'): typeof describe | typeof describe.skip {
  return isInstalled(program) ? describe : describe.skip;
}

function isInstalled(program: string): boolean {
  const found = spawnSync(program, ['--version']).error === undefined;
  if (!found) process.stderr.write(`skipped: ${program} is not installed (Debian package: prometheus)\n`);
  return found;
}
