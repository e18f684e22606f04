import { describe, it } from '@jest/globals';
import { findProgram } from './find-program.ts';

/** Programs that only tests need, and their origin. */
const programs = {
  jq: 'Debian package jq',
  helm: 'go install helm.sh/helm/v3/cmd/helm',
  'openapi-python-client': 'Python package openapi-python-client',
  'openapi-ts': 'npm package @hey-api/openapi-ts',
  openssl: 'Debian package openssl',
  python3: 'Debian package python3',
  prlimit: 'Debian package util-linux',
  prometheus: 'Debian package prometheus',
  promtool: 'Debian package prometheus',
  'redis-server': 'Debian package redis-server',
  redocly: 'npm package @redocly/cli',
  wrk: 'Debian package wrk',
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

/** The same for `describe` and anything else that a machine may lack. */
export function describeWhere(isPossible: boolean, missing: string): typeof describe | typeof describe.skip {
  if (!isPossible) process.stderr.write(`skipped: ${missing}\n`);
  return isPossible ? describe : describe.skip;
}

/** Looks for the file: starting it, once for each test, would take longer than the test. */
function isInstalled(program: Program): boolean {
  const found = findProgram(program) !== undefined;
  if (!found) process.stderr.write(`skipped: ${program} is not installed (${programs[program]})\n`);
  return found;
}
