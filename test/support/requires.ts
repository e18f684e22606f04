import { spawnSync } from 'node:child_process';
import { describe, it } from '@jest/globals';

/** Programs that only tests need: version argument and origin. */
const programs = {
  jq: ['--version', 'Debian package jq'],
  helm: ['version', 'go install helm.sh/helm/v3/cmd/helm'],
  openssl: ['version', 'Debian package openssl'],
  prometheus: ['--version', 'Debian package prometheus'],
  promtool: ['--version', 'Debian package prometheus'],
  wrk: ['--version', 'Debian package wrk'],
} as const;

type Program = keyof typeof programs;

/** `it` if the program is installed; otherwise `it.skip` with a message. */
export function itWith(program: Program): typeof it | typeof it.skip {
  return isInstalled(program) ? it : it.skip;
}

/** The same for anything else that a machine may lack. @param missing what is missing, for the message */
export function itWhere(isPossible: boolean, missing: string): typeof it | typeof it.skip {
  if (!isPossible) process.stderr.write(`skipped: ${missing}\n`);
  return isPossible ? it : it.skip;
}

/** The same for `describe`. */
export function describeWith(program: Program): typeof describe | typeof describe.skip {
  return isInstalled(program) ? describe : describe.skip;
}

function isInstalled(program: Program): boolean {
  const [versionArgument, origin] = programs[program];
  const found = spawnSync(program, [versionArgument]).error === undefined;
  if (!found) process.stderr.write(`skipped: ${program} is not installed (${origin})\n`);
  return found;
}
