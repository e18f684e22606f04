import { spawnSync } from 'node:child_process';

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
