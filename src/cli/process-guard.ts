import { fromEnvironment } from '../config/read.ts';
import type { Log } from '../ops/log.ts';

/** Settings of the process under which no secret should be touched: what is wrong and what to do. */
export function unsafeSettings(lookUp: (name: string) => string | undefined = fromEnvironment): string[] {
  const settings: [isUnsafe: boolean, problem: string][] = [
    [
      lookUp('NODE_TLS_REJECT_UNAUTHORIZED') === '0',
      'NODE_TLS_REJECT_UNAUTHORIZED=0 switches the verification of certificates off. Unset it; trust a CA with caFile.',
    ],
    [
      (lookUp('NODE_DEBUG') ?? '') !== '',
      'NODE_DEBUG makes Node print the headers of requests, Vault tokens and signatures among them. Unset it.',
    ],
  ];
  return settings.filter(([isUnsafe]) => isUnsafe).map(([, problem]) => problem);
}

/**
 * The first patch of each Node release line in which a kept-alive connection cannot be made to take one
 * reply for another's. Before them, payments are safe all the same: they use a connection of their own.
 */
const mended: Readonly<Record<string, readonly [minor: number, patch: number]>> = {
  24: [22, 1],
  26: [12, 1],
};

export function isMended(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.replace(/^v/, '').split('.').map(Number);
  const first = mended[major];
  if (first === undefined) return major > 26;
  return minor > first[0] || (minor === first[0] && patch >= first[1]);
}

/** Tells of an old Node, and ends the process on a defect without printing what it held. */
export function guardProcess(log: Log): void {
  if (!isMended(process.version)) {
    log.note(
      'warn',
      'use Node 24.22.1, 26.12.1 or later: earlier ones can mix up replies on kept-alive connections',
      { node: process.version },
    );
  }
  process.on('uncaughtException', (error: unknown, origin) => {
    log.defect(origin, error);
    process.exit(1);
  });
}
