import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../config/schema.ts';

/** What is opened once for a process. The audit key itself is read again with each reload. */
export const startOnly: Readonly<Record<string, (config: Config) => unknown>> = {
  audit: ({ audit }) => audit,
  'log.level': ({ log }) => log.level,
};

/** The fields that differ from those the process started with, and require a restart. */
export function fieldsForRestart(started: Config, next: Config): readonly string[] {
  return Object.entries(startOnly)
    .filter(([, read]) => !isDeepStrictEqual(read(started), read(next)))
    .map(([field]) => field);
}
