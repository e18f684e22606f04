import { deepEqual, ok } from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ConfigInput, configFor, everything, tokenCredential } from '../support/config.ts';
import { freePort } from '../support/faulty-gateway.ts';
import { Folder } from '../support/folder.ts';
import { spawnServe } from '../support/process.ts';
import { writeKeys } from '../support/service.ts';
import { until } from '../support/until.ts';
import { publicKeyOf, vectorPath, vectorText } from '../support/vectors.ts';
import { verifyAuthorization } from '../support/verify.ts';
import { type Load, token } from './measure.ts';
import type { Upstream } from './upstream.ts';

export type KeyBits = 2048 | 4096;

/** A way of a form to the upstream. */
export interface Way {
  readonly name: string;
  readonly signature: 'unsigned' | 'HMAC' | KeyBits;
  readonly url: string;
  readonly body: string;
  /** The process that is measured; `undefined`: there is none in between. */
  readonly child: ChildProcess | undefined;
  /** In place of the usual one. */
  readonly load?: Partial<Load>;
  /** Requests before it is measured, in place of the usual number. */
  readonly before?: number;
  readonly stop: () => unknown;
}

/** Protects nothing. */
export const controlKey = '5F2C9E4A-7B1D-4E8F-9A3C-6D0B8E2F4A17';
const balance = { path: '/gw/api/v2/get-balance/manager/acme', body: 'balance-name=Main+USD' };
const status = {
  path: '/gw/api/v4/status/1234',
  body: 'client_orderid=902B4FF5-1A77&login=acme&orderid=6570344',
};

const pathOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
/** Where Debian's package libnginx-mod-http-js puts the module. */
const njs = '/usr/lib/nginx/modules/ngx_http_js_module.so';
export const hasNginx = existsSync(njs);

/** All of them, in the order in which they are measured: what is compared, in succession. */
export async function startWays(upstream: string): Promise<Way[]> {
  const { path, body } = balance;
  const none = { child: undefined, stop: () => {} };
  const straight: Way = { name: 'straight', signature: 'unsigned', url: upstream + path, body, ...none };
  const ways = [
    straight,
    await startScript('http-proxy-middleware', 'unsigned', upstream),
    await startScript('naive app', 'HMAC', upstream),
  ];
  for (const signature of ['HMAC', 2048, 4096] as const) {
    ways.push(await startCountersign(upstream, signature));
    if (hasNginx) ways.push(await startNginx(upstream, signature));
  }
  return ways;
}

/** Starts a file of this folder. */
async function startScript(name: string, signature: Way['signature'], upstream: string): Promise<Way> {
  const port = String(await freePort());
  const file = pathOf(signature === 'unsigned' ? 'bare.ts' : 'naive.ts');
  const child = spawn(process.execPath, [file, upstream, port, controlKey], { stdio: 'inherit' });
  return started(name, signature, { child, url: `http://127.0.0.1:${port}`, stop: () => child.kill() });
}

async function startNginx(upstream: string, signature: Way['signature']): Promise<Way> {
  const folder = new Folder();
  const port = String(await freePort());
  const keyFile = vectorPath(`keys/rsa-${signature === 4096 ? 4096 : 2048}-pkcs8.pem`);
  const { host } = new URL(upstream);
  const values = new Map(Object.entries({ folder: folder.path, port, njs, host, keyFile, controlKey }));
  for (const name of ['nginx.conf', 'nginx.njs']) {
    const template = readFileSync(pathOf(name), 'utf8');
    folder.file(
      name,
      template.replace(/@(\w+)@/g, (all, value) => values.get(value) ?? all),
    );
  }
  const child = spawn('nginx', ['-e', 'stderr', '-c', folder.at('nginx.conf')], { stdio: 'inherit' });
  child.once('exit', () => folder.remove());
  const stop = (): boolean => child.kill();
  return started('nginx + njs', signature, { child, url: `http://127.0.0.1:${port}`, stop });
}

/** As in production: the built program, keys in a folder, a caller with a token, metrics, a log line per request. */
export async function startCountersign(
  upstream: string,
  signature: Way['signature'],
  more: Partial<ConfigInput> = {},
  logins = 0,
): Promise<Way> {
  const port = await freePort();
  const file = configFor(upstream, { proxy: { port }, callers: [callerOf('bench', token)], ...more });
  const bits = signature === 4096 ? 4096 : 2048;
  const keys = { controlKey, privateKey: vectorText(`keys/rsa-${bits}-pkcs8.pem`) };
  const stdout = openSync('/dev/null', 'w');
  // As a user starts it: without the cache of the tests.
  const env = { NODE_DISABLE_COMPILE_CACHE: '1' };
  const program = pathOf('../../dist/bin.cjs');
  const { child, folder, close } = spawnServe({ file, keys: { acme: keys }, program, stdout, env });
  closeSync(stdout);
  for (let at = 0; at < logins; at += 1) writeKeys(join(folder, 'keys'), 'sandbox', `acme-${at}`, keys);
  const url = `http://127.0.0.1:${port}/sandbox`;
  return started('Countersign', signature, { child, url, stop: close });
}

/** A caller that may do everything. In YAML, a grant that all share would be an alias for each. */
export function callerOf(name: string, secret: string) {
  return { name, credentials: [tokenCredential(secret)], allow: [structuredClone(everything)] };
}

/** Resolves when the process responds. */
async function started(
  program: string,
  signature: Way['signature'],
  { url, ...more }: Pick<Way, 'child' | 'url' | 'stop'>,
): Promise<Way> {
  const isRsa = typeof signature === 'number';
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
export async function verifyWay(way: Way, upstream: Upstream): Promise<string> {
  const { signature, body } = way;
  const before = upstream.last();
  ok(await post(way), `${way.name} gave an error`);
  const received = upstream.last();
  ok(received !== undefined && received !== before, 'the upstream did not receive the form');
  if (signature === 'unsigned') {
    deepEqual(received.body.toString(), body);
    return 'none';
  }
  const key =
    signature === 'HMAC' ? { controlKey } : { publicKey: publicKeyOf(`rsa-${signature}-public.pem`) };
  const { form, oauth } = verifyAuthorization(received, key);
  deepEqual(form, [...new URLSearchParams(body)]);
  return oauth.get('oauth_signature_method') ?? 'none';
}
