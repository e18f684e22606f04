import { createHash } from 'node:crypto';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { configSchema } from '../../src/config/schema.ts';
import { writeKeys } from '../support/service.ts';
import { vectorPath, vectorText } from '../support/vectors.ts';
import { type Child, startChild } from './child.ts';
import { controlKey, token } from './traffic.ts';

export type KeyBits = 2048 | 4096;

/** Logins by the RSA key they have; each has the control key as well. */
export const logins: Readonly<Record<KeyBits, string>> = { 2048: 'acme', 4096: 'acme-4096' };

export const keyFileOf = (bits: KeyBits): string => vectorPath(keyNameOf(bits));

/** RSA signatures at once, unless configuration says otherwise. */
export const usualConcurrency = configSchema.shape.signing.parse(undefined).concurrency;

export interface RunningCountersign {
  readonly child: Child;
  /** With the environment that leads to the upstream. */
  readonly url: string;
  stop(): Promise<void>;
}

/**
 * `countersign serve` as in production: keys from a folder, a caller with a bearer token, metrics, and a log
 * line per request, written to a file.
 */
export async function startCountersign(upstream: string, concurrency: number): Promise<RunningCountersign> {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-bench-'));
  const configFile = join(folder, 'countersign.yaml');
  const keys = join(folder, 'keys');
  for (const bits of [2048, 4096] as const) {
    writeKeys(keys, 'sandbox', logins[bits], { controlKey, privateKey: vectorText(keyNameOf(bits)) });
  }
  writeFileSync(configFile, JSON.stringify(configOf(upstream, keys, concurrency)));
  const logFile = join(folder, 'log');
  const log = openSync(logFile, 'w');
  const serve = ['serve', '--config', configFile];
  const child = startChild(new URL('../../src/main.ts', import.meta.url), { args: serve, stdout: log });
  closeSync(log);
  const stop = async (): Promise<void> => {
    await child.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    return { child, url: await urlIn(logFile), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function configOf(baseUrl: string, directory: string, concurrency: number): object {
  return {
    proxy: { port: 0 },
    admin: { port: 0 },
    environments: { sandbox: { baseUrl, product: 'gw' } },
    keys: { source: 'directory', directory },
    signing: { concurrency },
    callers: [
      {
        name: 'bench',
        credentials: [{ tokenSha256: createHash('sha256').update(token).digest('hex') }],
        allow: [
          {
            environments: ['sandbox'],
            operations: ['manager-balance', 'order-status'],
            logins: Object.values(logins),
          },
        ],
      },
    ],
  };
}

/** Countersign says in its log where it listens. */
async function urlIn(logFile: string): Promise<string> {
  for (let tries = 0; tries < 500; tries += 1) {
    const url = /"proxy":"([^"]+)"/.exec(readFileSync(logFile, 'utf8'))?.[1];
    if (url !== undefined) return `${url}/sandbox`;
    await wait(20);
  }
  throw new Error(`Countersign did not start: ${readFileSync(logFile, 'utf8')}`);
}

function keyNameOf(bits: KeyBits): string {
  return `keys/rsa-${bits}-pkcs8.pem`;
}
