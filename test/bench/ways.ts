import { deepEqual, ok } from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { configFor, everything, tokenCredential } from '../support/config.ts';
import { freePort } from '../support/faulty-gateway.ts';
import { spawnServe } from '../support/process.ts';
import { until } from '../support/until.ts';
import { publicKeyOf, vectorText } from '../support/vectors.ts';
import { verifyAuthorization } from '../support/verify.ts';
import { token } from './measure.ts';
import type { Upstream } from './upstream.ts';

type Signature = 'HMAC' | 2048 | 4096;

/** A way of a form to the upstream. */
export interface Way {
  readonly name: string;
  readonly signature: Signature;
  readonly url: string;
  readonly body: string;
  /** The process that is measured. */
  readonly child: ChildProcess;
  readonly stop: () => unknown;
}

/** Protects nothing. */
const controlKey = '5F2C9E4A-7B1D-4E8F-9A3C-6D0B8E2F4A17';
const balance = { path: '/gw/api/v2/get-balance/manager/acme', body: 'balance-name=Main+USD' };
const status = {
  path: '/gw/api/v4/status/1234',
  body: 'client_orderid=902B4FF5-1A77&login=acme&orderid=6570344',
};

const pathOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/** The naive app first, with which the others are compared. */
export async function startWays(upstream: string): Promise<readonly [Way, ...Way[]]> {
  const naive = await startNaive(upstream);
  const ways: Way[] = [];
  for (const signature of ['HMAC', 2048, 4096] as const)
    ways.push(await startCountersign(upstream, signature));
  return [naive, ...ways];
}

async function startNaive(upstream: string): Promise<Way> {
  const port = String(await freePort());
  const args = [pathOf('naive.ts'), upstream, port, controlKey];
  const child = spawn(process.execPath, args, { stdio: 'inherit' });
  return started('naive app', 'HMAC', { child, url: `http://127.0.0.1:${port}`, stop: () => child.kill() });
}

/** As in production: the built program, keys in a folder, a caller with a token, metrics, a log line per request. */
async function startCountersign(upstream: string, signature: Signature): Promise<Way> {
  const port = await freePort();
  const caller = { name: 'bench', credentials: [tokenCredential(token)], allow: [everything] };
  const file = configFor(upstream, { proxy: { port }, callers: [caller] });
  const bits = signature === 4096 ? 4096 : 2048;
  const keys = { acme: { controlKey, privateKey: vectorText(`keys/rsa-${bits}-pkcs8.pem`) } };
  const stdout = openSync('/dev/null', 'w');
  // As a user starts it: without the cache of the tests.
  const env = { NODE_DISABLE_COMPILE_CACHE: '1' };
  const { child, close } = spawnServe({ file, keys, program: pathOf('../../dist/bin.cjs'), stdout, env });
  closeSync(stdout);
  return started('Countersign', signature, { child, url: `http://127.0.0.1:${port}/sandbox`, stop: close });
}

/** Resolves when the process responds. */
async function started(
  program: string,
  signature: Signature,
  { url, ...more }: Pick<Way, 'child' | 'url' | 'stop'>,
): Promise<Way> {
  const isRsa = signature !== 'HMAC';
  const { path, body } = isRsa ? status : balance;
  const name = `${program}, ${isRsa ? 'RSA ' : ''}${signature}`;
  const way = { name, signature, url: url + path, body, ...more };
  await until(() => post(way).catch(() => false), `${name} responds`, 60);
  return way;
}

/** Whether the response is a 200. */
async function post({ url, body }: Way): Promise<boolean> {
  const type = 'application/x-www-form-urlencoded';
  const headers = { authorization: `Bearer ${token}`, 'content-type': type };
  const response = await fetch(url, { method: 'POST', headers, body });
  await response.arrayBuffer();
  return response.status === 200;
}

/**
 * Posts a form and checks what the upstream received: the form, signed with the key of the way. Uses none of our signer.
 *
 * @returns the signature method of the received request
 * @throws AssertionError
 */
export async function verifyWay(way: Way, upstream: Upstream): Promise<string | undefined> {
  const { signature, body } = way;
  const before = upstream.last();
  ok(await post(way), `${way.name} gave an error`);
  const received = upstream.last();
  ok(received !== undefined && received !== before, 'the upstream did not receive the form');
  const key =
    signature === 'HMAC' ? { controlKey } : { publicKey: publicKeyOf(`rsa-${signature}-public.pem`) };
  const { form, oauth } = verifyAuthorization(received, key);
  deepEqual(form, [...new URLSearchParams(body)]);
  return oauth.get('oauth_signature_method');
}
