import { writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { check } from '../../src/cli/check/check.ts';
import { redactedLogin } from '../../src/observability/login-redactor.ts';
import { auditIn, recordsIn } from '../support/audit.ts';
import { run, runCommandHere } from '../support/cli.ts';
import { configFor } from '../support/config.ts';
import { Processes } from '../support/demo.ts';
import { type HttpResponse, paths, verdict } from '../support/forwarding.ts';
import { type Edge, harness } from '../support/harness.ts';
import { listen } from '../support/listening.ts';
import { RedisServer } from '../support/redis-server.ts';
import { startRelay } from '../support/relay.ts';
import { describeWith } from '../support/requires.ts';
import { noGateway } from '../support/service.ts';
import { Ca } from '../support/stub-vault/certificates.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { until } from '../support/until.ts';

const starts = harness();
const duplicate = '409 duplicate-payment unknown unknown';
const unavailable = '503 claims-unavailable not-sent not-sent';
const sandbox = { environment: 'sandbox' };

const redis = async (...args: string[]): Promise<RedisServer> =>
  starts.closing(await RedisServer.start(args));

/** Beside each other, with the same key and gateway unless given. */
async function start(store: string, more: object = {}, gateway?: Edge['gateway']): Promise<Edge> {
  const keyFile = starts.folder().file('once.key', 'k'.repeat(32));
  const config = { payments: { once: { store, keyFile, timeout: '1s', ...more } } };
  if (gateway === undefined) return starts.edge({ config });
  return { ...(await starts.proxy({ config, gateway: gateway.url })), gateway };
}

const pay = (edge: Edge, orderId = 'order-1', card = '4111111111111111'): Promise<HttpResponse> =>
  edge.post(paths.transfer, `client_orderid=${orderId}&amount=1&credit_card_number=${card}`);

/** Once the store responds again. */
async function payWhenUp(edge: Edge, orderId: string): Promise<HttpResponse> {
  await until(async () => (await edge.metric('claim_store_up')) === 1, 'the store is up');
  return pay(edge, orderId);
}

/** Requests, which then claim. */
const authorized = (edge: Edge) => edge.metric('authorization_decisions_total', { decision: 'allowed' });

const causes = (edge: Edge): string =>
  JSON.stringify(
    edge.logLines('order IDs cannot be claimed; payments are not sent').map(({ cause }) => cause),
  );

async function claimNames(store: RedisServer): Promise<string[]> {
  const names = z.array(z.string()).parse(await store.command('KEYS', 'countersign:once:*'));
  return names.filter((name) => !/:(?:key|check)$/.test(name));
}

describeWith('redis-server')('claims in Redis', () => {
  it('are shared by instances, and outlive them and the store', async () => {
    const store = await redis();
    const one = await start(store.url);
    const other = await start(store.url, {}, one.gateway);
    const first = await pay(one);
    expect(first.status).toBe(200);
    const repeat = await pay(other);
    expect(verdict(repeat)).toBe(duplicate);
    expect(repeat.body).toContain(`by request ${String(first.headers['x-request-id'])}`);
    await one.stop();
    await store.kill();
    await store.restart();
    expect(verdict(await payWhenUp(other, 'order-1'))).toBe(duplicate);
    expect(one.gateway.requests).toHaveLength(1);
  });

  it('hold neither order IDs nor card data', async () => {
    const store = await redis();
    await pay(await start(store.url));
    expect(store.written()).toContain('countersign:once:');
    expect(store.written()).not.toMatch(/order-1|411111|acme|sandbox|transfer/);
  });

  it('are removed if nothing was sent, also by a store that comes back later', async () => {
    const store = await redis();
    const edge = await start(store.url);
    let killed: Promise<void> | undefined;
    edge.gateway.respond = (response) => {
      killed = store.kill();
      void killed.then(() => response.writeHead(403).end());
    };
    expect((await pay(edge)).status).toBe(403);
    await store.restart();
    edge.gateway.respond = (response) => response.end('OK');
    expect((await payWhenUp(edge, 'order-1')).status).toBe(200);
    expect(verdict(await pay(edge))).toBe(duplicate);
  });

  it('need the store: without it payments are not sent, and queries go on', async () => {
    const store = await redis();
    const edge = await start(store.url);
    await store.kill();
    expect(verdict(await pay(edge))).toBe(unavailable);
    expect((await edge.status()).status).toBe(200);
    await until(async () => (await edge.metric('claim_store_up')) === 0, 'the store is down');
    expect((await edge.instanceStatus()).findings).toContainEqual(
      expect.objectContaining({ code: 'claims-unavailable', severity: 'bad' }),
    );
    await store.restart();
    expect((await payWhenUp(edge, 'order-1')).status).toBe(200);
    expect(edge.logLines('order IDs can be claimed again')).toHaveLength(1);
    expect(edge.gateway.requests).toHaveLength(2);
  });

  it('need a response in time, and only the first payments wait for it', async () => {
    const store = await redis();
    const edge = await start(store.url);
    store.hang();
    const waiting = await Promise.all(['a', 'b', 'c'].map((orderId) => pay(edge, orderId)));
    expect(waiting.map(verdict)).toEqual([unavailable, unavailable, unavailable]);
    const began = performance.now();
    expect(verdict(await pay(edge, 'd'))).toBe(unavailable);
    expect(performance.now() - began).toBeLessThan(800);
    expect(edge.gateway.requests).toHaveLength(0);
    store.proceed();
    // Claims that the store made after all are removed.
    await payWhenUp(edge, 'other');
    for (const orderId of ['a', 'b', 'c', 'd']) expect((await pay(edge, orderId)).status).toBe(200);
    expect(causes(edge)).toContain('no response in time');
  });

  it('hold no slot of a query while they wait for the store', async () => {
    const store = await redis();
    const keyFile = starts.folder().file('once.key', 'k'.repeat(32));
    const config = { payments: { once: { store: store.url, keyFile, timeout: '1s' } } };
    const edge = await starts.edge({ config, sandbox: { maxInFlight: 2 } });
    store.hang();
    const waiting = ['a', 'b', 'c'].map((orderId) => pay(edge, orderId));
    await until(async () => (await authorized(edge)) === 3, 'they wait');
    expect((await edge.status()).status).toBe(200);
    expect((await Promise.all(waiting)).map(verdict)).toEqual([unavailable, unavailable, unavailable]);
  });

  describe('a shutdown leaves none of what was not sent', () => {
    const payments = (store: string, keyFile: string) => ({
      payments: { once: { store, keyFile, timeout: '5s' } },
      proxy: { port: 0, timeouts: { shutdown: '200ms', shutdownDelay: '0s' } },
    });

    it('while it waits for the store', async () => {
      const store = await redis();
      const keyFile = starts.folder().file('once.key', 'k'.repeat(32));
      const edge = await starts.edge({ config: payments(store.url, keyFile) });
      store.hang();
      const waiting = pay(edge);
      await until(async () => (await authorized(edge)) === 1, 'it waits');
      const stopped = edge.stop();
      expect(verdict(await waiting)).toBe('503 shutting-down not-sent not-sent');
      store.proceed();
      await stopped;
      expect((await pay(await start(store.url, { keyFile }, edge.gateway))).status).toBe(200);
      expect(edge.gateway.requests).toHaveLength(1);
    });

    it('while it waits for its key', async () => {
      const store = await redis();
      const vault = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
      const keyFile = starts.folder().file('once.key', 'k'.repeat(32));
      const keys = vaultKeys(vault.vault.address, { timeout: '8s' });
      const edge = await starts.edge({ config: { ...payments(store.url, keyFile), keys } });
      vault.vault.fail({ kind: 'black-hole' });
      const waiting = pay(edge);
      await until(() => store.written().includes('requestId'), 'it is claimed');
      const stopped = edge.stop();
      expect(verdict(await waiting)).toBe('503 shutting-down not-sent not-sent');
      await stopped;
      expect((await pay(await start(store.url, { keyFile }, edge.gateway))).status).toBe(200);
      expect(edge.gateway.requests).toHaveLength(1);
    });
  });

  it('are there whatever is stored under their name: nobody knows that it was not sent', async () => {
    const store = await redis();
    const edge = await start(store.url);
    await pay(edge);
    for (const name of await claimNames(store)) await store.command('SET', name, 'garbage');
    const repeat = await pay(edge);
    expect(verdict(repeat)).toBe(duplicate);
    expect(repeat.body).toContain('by a request of which nothing is known');
    const [name = ''] = await claimNames(store);
    await store.command('DEL', name);
    await store.command('LPUSH', name, 'a list');
    expect(verdict(await pay(edge))).toBe(duplicate);
    expect((await pay(edge, 'order-2')).status).toBe(200);
    expect(await edge.metric('claim_store_up')).toBe(1);
    expect(edge.gateway.requests).toHaveLength(2);
  });

  it('need user and password, which are read for each connection', async () => {
    const rights = '~countersign:once:* +eval +get +set +del +pttl +ping +info'.split(' ');
    const user = ['--user', 'countersign', 'on', '>right', ...rights];
    const store = await redis(...user, '--user', 'default', 'off');
    const passwordFile = starts.folder().file('password', 'wrong\n');
    const edge = await start(store.url, { username: 'countersign', passwordFile });
    expect(verdict(await pay(edge))).toBe(unavailable);
    expect(causes(edge)).toContain('WRONGPASS');
    writeFileSync(passwordFile, 'right\n');
    expect((await payWhenUp(edge, 'order-1')).status).toBe(200);
    expect(verdict(await pay(edge))).toBe(duplicate);
    expect(edge.seen()).not.toMatch(/right|wrong/);
  });

  it.each(['get', 'set', 'del', 'pttl'])('need a user that may %s, as the start notices', async (missing) => {
    const rights = ['eval', 'get', 'set', 'del', 'pttl', 'ping', 'info'].filter((name) => name !== missing);
    const allowed = rights.map((name) => `+${name}`);
    const store = await redis('--user', 'countersign', 'on', '>right', '~countersign:once:*', ...allowed);
    const passwordFile = starts.folder().file('password', 'right');
    const edge = await start(store.url, { username: 'countersign', passwordFile });
    expect(await edge.metric('claim_store_up')).toBe(0);
    expect(causes(edge)).toContain("can't run this command");
    expect(verdict(await pay(edge))).toBe(unavailable);
  });

  it('are not made with another key while there are some', async () => {
    const store = await redis();
    const one = await start(store.url);
    await pay(one);
    const keyFile = starts.folder().file('other.key', 'o'.repeat(32));
    const other = await start(store.url, { keyFile }, one.gateway);
    expect(verdict(await pay(other))).toBe(unavailable);
    expect(causes(other)).toContain('CLAIMS live that were made with another key');
    expect(verdict(await pay(one))).toBe(duplicate);
  });

  it('are not made in a replica, which the start notices', async () => {
    const primary = await redis();
    const replica = await redis('--replicaof', `127.0.0.1 ${primary.port}`);
    const edge = await start(replica.url);
    expect(await edge.metric('claim_store_up')).toBe(0);
    expect(causes(edge)).toBe(`["READONLY You can't write against a read only replica."]`);
    expect(verdict(await pay(edge))).toBe(unavailable);
    expect((await edge.status()).status).toBe(200);
  });

  it('are there after a failover to a replica that has them', async () => {
    const primary = await redis();
    const replica = await redis('--replicaof', `127.0.0.1 ${primary.port}`);
    const name = starts.closing(await startRelay(primary.port));
    const edge = await start(`redis://127.0.0.1:${name.port}`);
    await until(
      async () => String(await replica.command('INFO')).includes('link_status:up'),
      'it replicates',
    );
    expect((await pay(edge)).status).toBe(200);
    await until(async () => (await claimNames(replica)).length === 1, 'it has the claim');
    await primary.kill();
    name.leadTo(replica.port);
    await until(() => causes(edge).includes('READONLY'), 'it is no primary yet');
    expect(verdict(await pay(edge, 'order-2'))).toBe(unavailable);
    await replica.command('REPLICAOF', 'NO', 'ONE');
    expect(verdict(await payWhenUp(edge, 'order-1'))).toBe(duplicate);
    expect((await pay(edge, 'order-2')).status).toBe(200);
    expect(edge.gateway.requests).toHaveLength(2);
  });

  it('are not made in a store that is full', async () => {
    const store = await redis('--maxmemory', '1kb');
    const edge = await start(store.url);
    expect(verdict(await pay(edge))).toBe(unavailable);
    await until(() => causes(edge).includes('OOM'), 'the cause is logged');
    expect(edge.gateway.requests).toHaveLength(0);
  });

  it('are checked by check --online, with what could lose them', async () => {
    const folder = starts.folder();
    const keyFile = folder.file('once.key', 'k'.repeat(32));
    const online = async (store: string) => {
      const payments = { once: { store, keyFile } };
      const keys = { source: 'directory', directory: folder.path } as const;
      const file = folder.file('check.yaml', JSON.stringify(configFor(noGateway, { payments, keys })));
      const { out } = await runCommandHere(check, '--online', '--json', file);
      const found: unknown = JSON.parse(out).checks.find((one: { check: string }) => one.check === 'claims');
      return found;
    };
    const safe = await redis();
    const weak = await redis('--maxmemory-policy', 'allkeys-lru', '--appendonly', 'no');
    const ok = { check: 'claims', subject: safe.url, result: 'ok', detail: 'order IDs can be claimed' };
    expect(await online(safe.url)).toMatchObject(ok);
    expect(await online(weak.url)).toMatchObject({
      result: 'warning',
      detail: expect.stringMatching(/evict claims.*allkeys-lru.*appendonly yes/),
    });
    const late = await redis('--appendfsync', 'everysec');
    expect(await online(late.url)).toMatchObject({
      result: 'warning',
      detail: expect.stringMatching(/claimed; a crash of the host .*appendfsync everysec/),
    });
    const replica = await redis('--replicaof', `127.0.0.1 ${safe.port}`);
    await until(async () => JSON.stringify(await online(safe.url)).includes('it has replicas'), 'a replica');
    expect(await online(replica.url)).toMatchObject({
      result: 'failed',
      detail: "READONLY You can't write against a read only replica.",
    });
    await safe.kill();
    expect(await online(safe.url)).toMatchObject({
      result: 'failed',
      detail: expect.stringContaining('ECONNREFUSED'),
    });
  });

  it('are shown and released by countersign payments, with an audit record', async () => {
    const store = await redis();
    const folder = starts.folder();
    const keyFile = folder.file('once.key', 'k'.repeat(32));
    const edge = await start(store.url, { keyFile });
    const first = String((await pay(edge)).headers['x-request-id']);
    const audit = auditIn(folder);
    const config = { payments: { once: { store: store.url, keyFile } }, audit };
    const file = folder.file('cli.yaml', JSON.stringify(configFor(edge.gateway.url, config)));
    const place = [
      '--config',
      file,
      '--environment',
      'sandbox',
      '--login',
      'acme',
      '--operation',
      'transfer',
    ];
    const payments = (name: string, ...more: string[]) => run(['payments', name, ...place, ...more]);

    const shown = await payments('show', 'order-1');
    expect(shown.out).toContain(`request  ${first}`);
    expect(shown.out).toContain('outcome  answered 200');
    expect((await payments('show', 'order-2')).out).toContain('not claimed');
    expect(await payments('release', '--request', 'another', 'order-1')).toMatchObject({ code: 1 });
    expect(verdict(await pay(edge))).toBe(duplicate);
    expect(await payments('release', '--request', first, 'order-1')).toMatchObject({ code: 0, err: '' });
    expect((await pay(edge)).status).toBe(200);

    const records = recordsIn(audit.directory).filter((record) => record['audit'] === 'released');
    expect(records).toEqual([
      expect.objectContaining({ request: first, login: 'acme', clientOrderId: 'order-1' }),
    ]);
    const verified = await run(['audit', 'verify', audit.directory, '--key-file', audit.keyFile]);
    expect(verified).toMatchObject({ code: 0 });
  });

  it('are shown beside what the query of each payment in the log says', async () => {
    const store = await redis();
    const folder = starts.folder();
    const keyFile = folder.file('once.key', 'k'.repeat(32));
    const edge = await start(store.url, { keyFile });
    edge.gateway.respond = (response, { target }) => {
      if (target.includes('/transfer/')) response.socket?.destroy();
      else response.setHeader('Content-Type', 'text/html;charset=utf-8').end('status=approved\n');
    };
    await pay(edge, 'order-1');
    await pay(edge, 'order-2');
    const lines = await edge.requestLines(2);
    const config = { payments: { once: { store: store.url, keyFile } } };
    const file = folder.file('cli.yaml', JSON.stringify(configFor(edge.gateway.url, config)));
    const processes = new Processes();
    starts.atEnd(() => processes.clear());
    const log = lines.map((line) => JSON.stringify(line)).join('\n');
    const queried = await processes.run(['payments', 'query', '--json', '--url', edge.url], log);
    const shown = await processes.run(['payments', 'show', '--config', file], queried.out);
    expect(shown).toMatchObject({ code: 0, err: '' });
    for (const [index, { requestId }] of lines.entries())
      expect(shown.out.replaceAll(/\s+/g, ' ')).toContain(
        `order-${index + 1} acme approved: paid transfer: unknown, request ${String(requestId)}`,
      );
    expect(await processes.run(['payments', 'show', '--config', file], 'other')).toMatchObject({
      code: 2,
      err: expect.stringContaining('not a line of payments query --json'),
    });
    // Of these it is not known whether they are claimed.
    const [line = '{}'] = queried.out.split('\n');
    for (const [fields, claim] of [
      [{ environment: 'nowhere' }, 'unknown environment'],
      [{ login: redactedLogin }, 'not shown in full'],
    ] as const) {
      const changed = JSON.stringify({ ...JSON.parse(line), ...fields });
      const { out } = await processes.run(['payments', 'show', '--config', file], changed);
      expect(out.trim().endsWith(`approved: paid  ${claim}`)).toBe(true);
    }
  });

  it('of a payment that is sent again during its release are not taken for the released one', async () => {
    const store = await redis();
    const folder = starts.folder();
    const keyFile = folder.file('once.key', 'k'.repeat(32));
    const edge = await start(store.url, { keyFile });
    edge.gateway.respond = (response) => response.writeHead(500).end();
    const first = String((await pay(edge)).headers['x-request-id']);
    const again: Promise<HttpResponse>[] = [];
    // The next payment is faster than the response of the store to the release.
    const slow = await listen(
      createServer((client) => {
        const server = connect(store.port, '127.0.0.1');
        for (const socket of [client, server]) socket.on('error', () => {});
        client.on('data', (chunk) => {
          const isRelease = String(chunk).includes(first);
          server.write(chunk);
          server.once('data', (response) => {
            if (isRelease) again.push(pay(edge));
            void Promise.all(again).then(() => client.write(response));
          });
        });
        client.once('close', () => server.destroy());
      }),
    );
    starts.atEnd(slow.close);
    const config = { payments: { once: { store: `redis://127.0.0.1:${slow.port}`, keyFile } } };
    const file = folder.file('cli.yaml', JSON.stringify(configFor(edge.gateway.url, config)));
    const place = ['--environment', 'sandbox', '--login', 'acme', '--operation', 'transfer'];
    const args = ['--config', file, ...place, '--request', first, 'order-1'];
    expect(await run(['payments', 'release', ...args])).toMatchObject({
      code: 0,
      out: expect.stringContaining('Released'),
    });
    expect((await again[0])?.status).toBe(500);
    expect(edge.gateway.requests).toHaveLength(2);
  });

  it.each([
    [['--operation', 'order-status', 'a'], '"order-status" is no operation with once'],
    [['--environment', 'nowhere', 'a'], 'unknown environment "nowhere"'],
    [[''], 'ORDER_ID is required'],
  ])('are not shown for what has none: %j', async (args, message) => {
    const folder = starts.folder();
    const keyFile = folder.file('once.key', 'k'.repeat(32));
    const config = { payments: { once: { store: 'redis://127.0.0.1:9', keyFile } } };
    const file = folder.file('cli.yaml', JSON.stringify(configFor(noGateway, config)));
    const place = [
      '--config',
      file,
      '--environment',
      'sandbox',
      '--login',
      'acme',
      '--operation',
      'transfer',
    ];
    expect(await run(['payments', 'show', ...place, ...args])).toMatchObject({
      code: 2,
      err: expect.stringContaining(message),
    });
  });

  it('go over TLS to a server whose certificate is verified', async () => {
    const folder = starts.folder();
    const ca = new Ca(folder.path, 'redis-ca');
    const { certFile, keyFile } = ca.issue('redis');
    const tls = ['--tls-cert-file', certFile, '--tls-key-file', keyFile, '--tls-auth-clients', 'no'];
    const plain = await redis();
    const free = await listen(createServer());
    await free.close();
    await redis('--tls-port', String(free.port), ...tls);
    const url = `rediss://127.0.0.1:${free.port}`;
    const edge = await start(url, { caFile: ca.file });
    expect((await pay(edge)).status).toBe(200);
    expect(verdict(await pay(edge))).toBe(duplicate);
    const untrusting = await start(url, {}, edge.gateway);
    expect(verdict(await pay(untrusting, 'b'))).toBe(unavailable);
    const toPlain = await start(plain.url.replace('redis:', 'rediss:'), {}, edge.gateway);
    expect(verdict(await pay(toPlain, 'c'))).toBe(unavailable);
  });
});

it.each(['+OK\r\n', ':0\r\n', '$-1\r\n', 'HTTP/1.1 200 OK\r\n\r\n', '*1000000000\r\n', '\u0000\u00ff'])(
  'a store that responds %j to everything lets no payment through, and ends no process',
  async (response) => {
    const server = createServer((socket) => {
      socket.on('error', () => {}).on('data', () => socket.write(response, 'latin1'));
    });
    const { port, close } = await listen(server);
    starts.atEnd(close);
    const edge = await start(`redis://127.0.0.1:${port}`);
    expect(verdict(await pay(edge))).toBe(unavailable);
    expect((await edge.status()).status).toBe(200);
    expect(edge.gateway.requests).toHaveLength(1);
  },
);

it.each(['+OK\r\n', '$1\r\na\r\n', ':1\r\n', ':2\r\n', '*1\r\n:1\r\n', '*0\r\n'])(
  'a store that responds %j to a claim, but not to the check, lets no payment through',
  async (response) => {
    const server = createServer((socket) => {
      socket
        .on('error', () => {})
        .on('data', (data) => {
          socket.write(String(data).includes('requestId') ? response : ':1\r\n');
        });
    });
    const { port, close } = await listen(server);
    starts.atEnd(close);
    const edge = await start(`redis://127.0.0.1:${port}`);
    expect(await edge.metric('claim_store_up')).toBe(1);
    expect(verdict(await pay(edge))).toBe(unavailable);
    await until(() => causes(edge).includes('an invalid response'), 'the cause is logged');
    expect(await edge.metric('claim_duration_seconds_count', sandbox)).toBe(1);
    expect(edge.gateway.requests).toHaveLength(0);
  },
);
