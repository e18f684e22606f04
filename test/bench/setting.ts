import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import type { Options } from './options.ts';

/** Where and how it was measured, as Markdown. */
export function setting({ requests, rounds, connections }: Options): string {
  return [
    `${cpus().length} cores (${cpus()[0]?.model ?? 'unknown'}), Node ${process.versions.node}, ` +
      `OpenSSL ${process.versions.openssl}, express ${versionOf('express')}, ` +
      `http-proxy-middleware ${versionOf('http-proxy-middleware')}.`,
    `${rounds} rounds of ${requests} requests (half for 2048 bits, a quarter for 4096) on ${connections} ` +
      'connections; load generator, proxy and upstream share the machine, each in its own process.',
  ].join('\n');
}

function versionOf(name: string): string {
  const file = new URL(`../../node_modules/${name}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(file, 'utf8')).version;
}
