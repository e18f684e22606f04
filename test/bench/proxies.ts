import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { configFor, everything, tokenCredential } from '../support/config.ts';
import { freePort } from '../support/faulty-gateway.ts';
import { spawnServe } from '../support/process.ts';
import { writeKeys } from '../support/service.ts';
import { vectorPath, vectorText } from '../support/vectors.ts';
import { memoryOf, token } from './measure.ts';

export interface Proxy {
  readonly url: string;
  readonly child: ChildProcess;
  /** From the start of the process to its first response, in seconds. */
  readonly startTime: number;
  /** Resident after that response, in MB. */
  readonly idleMemory: number;
  readonly stop: () => unknown;
}

export type KeyBits = 2048 | 4096;

/** Protects nothing. */
export const controlKey = '5F2C9E4A-7B1D-4E8F-9A3C-6D0B8E2F4A17';
export const balance = { path: '/gw/api/v2/get-balance/manager/acme', body: 'balance-name=Main+USD' };

const pathOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/** Starts a file of this folder. */
export const startScript =
  (name: string) =>
  async (upstream: string): Promise<Proxy> => {
    const port = String(await freePort());
    const child = spawn(process.execPath, [pathOf(name), upstream, port, controlKey], { stdio: 'inherit' });
    return started(child, `http://127.0.0.1:${port}`, () => child.kill());
  };

/** Where Debian's package libnginx-mod-http-js puts the module. */
const njs = '/usr/lib/nginx/modules/ngx_http_js_module.so';
export const hasNginx = existsSync(njs);

export async function startNginx(upstream: string, bits: KeyBits): Promise<Proxy> {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-bench-'));
  const port = String(await freePort());
  const keyFile = vectorPath(`keys/rsa-${bits}-pkcs8.pem`);
  const { host } = new URL(upstream);
  const values = new Map(Object.entries({ folder, port, njs, host, keyFile, controlKey }));
  for (const name of ['nginx.conf', 'nginx.njs']) {
    const template = readFileSync(pathOf(name), 'utf8');
    const text = template.replace(/@(\w+)@/g, (all, value) => values.get(value) ?? all);
    writeFileSync(join(folder, name), text);
  }
  const child = spawn('nginx', ['-e', 'stderr', '-c', join(folder, 'nginx.conf')], { stdio: 'inherit' });
  child.once('exit', () => rmSync(folder, { recursive: true }));
  return started(child, `http://127.0.0.1:${port}`, () => child.kill());
}

/** As in production: the built program, keys in a folder, a caller with a token, metrics, a log line per request. */
export async function startCountersign(
  upstream: string,
  bits: KeyBits,
  more = {},
  logins = 0,
): Promise<Proxy> {
  const port = await freePort();
  const config = configFor(upstream, { proxy: { port }, callers: [callerOf('bench', token)], ...more });
  const keys = { controlKey, privateKey: vectorText(`keys/rsa-${bits}-pkcs8.pem`) };
  const stdout = openSync('/dev/null', 'w');
  // As a user starts it: without the cache of the tests.
  const env = { NODE_DISABLE_COMPILE_CACHE: '1' };
  const program = pathOf('../../dist/bin.cjs');
  const { child, folder, close } = spawnServe({ file: config, keys: { acme: keys }, program, stdout, env });
  closeSync(stdout);
  for (let at = 0; at < logins; at += 1) writeKeys(join(folder, 'keys'), 'sandbox', `acme-${at}`, keys);
  return started(child, `http://127.0.0.1:${port}/sandbox`, close);
}

/** A caller that may do everything. In YAML, a grant that all share would be an alias for each. */
export function callerOf(name: string, secret: string) {
  return { name, credentials: [tokenCredential(secret)], allow: [structuredClone(everything)] };
}

async function started(child: ChildProcess, url: string, stop: () => unknown): Promise<Proxy> {
  const startedAt = performance.now();
  while (!(await post(url + balance.path, balance.body).catch(() => false))) {
    await wait(5);
    if (child.exitCode === null && performance.now() - startedAt < 60_000) continue;
    await stop();
    throw new Error(`${child.spawnargs.join(' ')} did not start`);
  }
  const startTime = (performance.now() - startedAt) / 1000;
  return { url, child, startTime, idleMemory: memoryOf(child.pid ?? 0), stop };
}

/** Whether the response is a 200. */
export async function post(url: string, body: string): Promise<boolean> {
  const type = 'application/x-www-form-urlencoded';
  const headers = { authorization: `Bearer ${token}`, 'content-type': type };
  const response = await fetch(url, { method: 'POST', headers, body });
  await response.arrayBuffer();
  return response.status === 200;
}
