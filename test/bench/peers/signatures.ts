import { createHmac, createPrivateKey, type KeyObject, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { promisify } from 'node:util';
import type { Question } from '../child.ts';
import { baseString, controlKey } from '../traffic.ts';
import { answer } from './peer.ts';

export interface PoolOrder extends Question {
  readonly ask: 'pool';
  /** PEM file of an RSA key. */
  readonly keyFile: string;
  readonly signatures: number;
  /** Signatures in flight at any time. */
  readonly concurrency: number;
}

export interface CoreOrder extends Question {
  readonly ask: 'core';
  /** PEM file of an RSA key; without it, HMAC-SHA1. */
  readonly keyFile?: string;
  readonly signatures: number;
}

const text = Buffer.from(baseString);
const signSoon = promisify<string, Buffer, KeyObject, Buffer>(sign);

/** Signatures a second that `crypto.sign` makes on libuv's pool. */
answer('pool', async ({ keyFile, signatures, concurrency }: PoolOrder): Promise<number> => {
  const key = createPrivateKey(readFileSync(keyFile));
  let left = signatures;
  const signAll = async (): Promise<void> => {
    while (left-- > 0) await signSoon('sha256', text, key);
  };
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: concurrency }, signAll));
  return signatures / ((performance.now() - startedAt) / 1000);
});

/** Signatures a second of CPU time, made one after the other. */
answer('core', ({ keyFile, signatures }: CoreOrder): number => {
  const signOnce = keyFile === undefined ? hmac : rsa(createPrivateKey(readFileSync(keyFile)));
  const before = process.cpuUsage();
  for (let made = 0; made < signatures; made += 1) signOnce();
  const { user, system } = process.cpuUsage(before);
  return signatures / ((user + system) / 1e6);
});

function hmac(): void {
  createHmac('sha1', `${controlKey}&`).update(text).digest('base64');
}

function rsa(key: KeyObject): () => void {
  return () => void sign('sha256', text, key);
}
