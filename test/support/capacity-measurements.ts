import { fork } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { configShape } from '../../src/config/shape.ts';
import { KeyCache } from '../../src/keys/cached.ts';
import { parseKeys } from '../../src/keys/key.ts';
import { methods } from '../../src/oauth1/methods.ts';
import type { GatewayReply } from '../../src/proxy/crossing.ts';
import { createForwarder, type Forwarder } from '../../src/proxy/forward.ts';
import { unlimitedMemory } from '../../src/proxy/memory-budget.ts';
import { askStatus, exchanges } from './forwarding.ts';
import { startProxy } from './service.ts';
import { controlKey, startSimulator } from './simulator.ts';
import { Ca } from './stub-vault/certificates.ts';
import { Folder, Told } from './stub-vault/harness.ts';

const requests = 3000;
const atOnce = 8;
const logins = 5000;
const warmUp = 500;
const serverRole = 'server';

/** CPU milliseconds of a request on a TLS connection of its own, less those of one on a pooled connection. */
async function handshake(): Promise<number> {
  const folder = new Folder();
  const ca = new Ca(folder.path, 'ca');
  const { certFile, keyFile } = ca.issue('gateway');
  const server = fork(import.meta.filename, [serverRole, certFile, keyFile]);
  const [port] = await once(server, 'message');
  const { environments } = configShape.parse({
    environments: { production: { baseUrl: `https://127.0.0.1:${port}`, product: 'gw' } },
    keys: { source: 'directory', directory: folder.path },
  });
  const settings = environments['production'];
  if (settings === undefined) throw new TypeError('the environment is missing');
  const forwarder = createForwarder(settings, ca.cert.toString());
  await cpuOf(forwarder, settings.baseUrl, true, requests / 10);
  await cpuOf(forwarder, settings.baseUrl, false, requests / 10);
  const [pooled, own] = [
    await cpuOf(forwarder, settings.baseUrl, false, requests),
    await cpuOf(forwarder, settings.baseUrl, true, requests),
  ];
  forwarder.retire();
  server.kill();
  folder.remove();
  return own - pooled;
}

/** Milliseconds of CPU for each request. */
async function cpuOf(
  forwarder: Forwarder,
  baseUrl: string,
  ownConnection: boolean,
  count: number,
): Promise<number> {
  const url = new URL('/gw/api/v4/transfer/1234', baseUrl);
  const body = Buffer.from('client_orderid=1&amount=1.00&currency=EUR');
  const headers = { Host: url.host, 'Content-Length': String(body.length) };
  const memory = unlimitedMemory().reservation();
  let left = count;
  const before = process.cpuUsage();
  const send = async (): Promise<void> => {
    while (left-- > 0) {
      const passage = { ownConnection, connect: 3000, exchange: 30_000, memory };
      await finished(await forwarder.send({ url, headers, body }, passage));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, send));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 / count;
}

async function finished({ rest }: GatewayReply): Promise<void> {
  for await (const chunk of rest ?? []) void chunk;
}

function serve(certFile: string, keyFile: string): void {
  const server = createServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) });
  server.on('request', (request, response) => {
    request.resume().once('end', () => response.end('status=approved\n'));
  });
  server.listen(0, '127.0.0.1', () => {
    const address = server.address();
    process.send?.(typeof address === 'object' ? address?.port : address);
  });
}

/** Bytes of the log line of a status query. */
async function logLine(): Promise<number> {
  const gateway = await startSimulator({ clock: () => Date.now() });
  const proxy = await startProxy({
    gateway: gateway.url,
    keys: { acme: { controlKey, privateKey: readFileSync('test/vectors/keys/rsa-2048-pkcs8.pem', 'utf8') } },
  });
  await askStatus(proxy);
  await exchanges(proxy);
  const line =
    proxy
      .logText()
      .split('\n')
      .find((text) => text.includes('"msg":"exchange"')) ?? '';
  await proxy.stop();
  await gateway.close();
  return Buffer.byteLength(line) + 1;
}

/** Kilobytes of resident memory for a cached login that has signed: a control key and an RSA key of 4096 bits. */
async function login(): Promise<number> {
  const key = generateKeyPairSync('rsa', { modulusLength: 4096 }).privateKey;
  const secret = { control_key: 'control-key', private_key: key.export({ type: 'pkcs8', format: 'pem' }) };
  const about = { version: 1, createdAt: new Date() };
  const source = { read: async () => parseKeys(secret, about), start() {}, ready: () => true, stop() {} };
  const cache = new KeyCache(
    source,
    { fresh: 3_600_000, stale: 43_200_000, missing: 10_000, entries: logins + warmUp },
    { monotonic: () => performance.now(), random: () => 0.5, events: new Told(), sourceName: 'vault' },
  );
  const use = async (index: number): Promise<void> => {
    for (const one of await cache.take({ environment: 'production', login: `merchant-${index}` })) {
      if ('key' in one && one.key.kind === 'private_key')
        await methods['RSA-SHA256'].sign('text', one.key, '');
    }
  };
  for (let index = 0; index < warmUp; index += 1) await use(index);
  const before = resident();
  for (let index = warmUp; index < warmUp + logins; index += 1) await use(index);
  return (resident() - before) / 1000 / logins;
}

/** Bytes, after a collection of garbage. */
function resident(): number {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect === 'function') collect();
  return process.memoryUsage().rss;
}

// node test/support/capacity-measurements.ts: what deploy/capacity.md tells besides the results of the benchmark.
const [, , role, certFile = '', keyFile = ''] = process.argv;
if (role === serverRole) serve(certFile, keyFile);
else {
  // First of all: later there would be garbage of the others to collect.
  const memory = await login();
  const found = { handshake: await handshake(), logLine: await logLine(), login: memory };
  process.stdout.write(`${JSON.stringify(found, undefined, 2)}\n`);
  process.exit();
}
