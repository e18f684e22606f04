import { writeFileSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { afterAll, describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { auditIn, recordsIn } from '../support/audit.ts';
import { run } from '../support/cli.ts';
import { type ConfigInput, configFor } from '../support/config.ts';
import { freePort } from '../support/faulty-gateway.ts';
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
const keyFile = harness(afterAll).folder().file('once.key', 'k'.repeat(32));
const duplicate = '409 duplicate-payment unknown unknown';
const unavailable = '503 claims-unavailable not-sent not-sent';

const redis = async (...args: string[]): Promise<RedisServer> =>
  starts.closing(await RedisServer.start(args));
const replicaOf = ({ port }: RedisServer) => redis('--replicaof', `127.0.0.1 ${port}`);

const claimsIn = (store: string, more: object = {}): Pick<ConfigInput, 'payments'> => ({
  payments: { once: { store, keyFile, timeout: '1s', ...more } },
});

/** Beside each other with the same gateway, if given. */
async function start(store: string, more: object = {}, gateway?: Edge['gateway']): Promise<Edge> {
  const config = claimsIn(store, more);
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

/** Until so many requests claim. */
const claiming = (edge: Edge, count: number) =>
  until(
    async () => (await edge.counted('authorization_decisions_total', { decision: 'allowed' })) === count,
    'they wait',
  );

const causes = (edge: Edge): string =>
  JSON.stringify(
    edge.logLines('order IDs cannot be claimed; payments are not sent').map(({ cause }) => cause),
  );

async function claimNames(store: RedisServer): Promise<string[]> {
  const names = z.array(z.string()).parse(await store.command('KEYS', 'countersign:once:*'));
  return names.filter((name) => !/:(?:key|check)$/.test(name));
}

/** Runs a command about payments with this configuration. */
async function payments(config: Partial<ConfigInput>, argv: readonly string[]) {
  const file = starts.folder().file('cli.yaml', JSON.stringify(configFor(noGateway, config)));
  const [name = '', ...more] = argv;
  return run(['payments', name, '--config', file, ...more]);
}
const place = '--environment sandbox --login acme --operation transfer'.split(' ');

describeWith('redis-server')('claims in Redis', () => {
  it('are shared by instances, and outlive them and the store; they hold neither order IDs nor card data', async () => {
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
    expect(store.written()).toContain('countersign:once:');
    expect(store.written()).not.toMatch(/order-1|411111|acme|sandbox|transfer/);
  });

  it('are removed if nothing was sent, also by a store that comes back later', async () => {
    const store = await redis();
    const edge = await start(store.url);
    edge.gateway.respond = (response) => void store.kill().then(() => response.writeHead(403).end());
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
    const rejected = await pay(edge);
    expect([verdict(rejected), rejected.headers['retry-after']]).toEqual([unavailable, '1']);
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

  it('need a response in time; only the first payments wait for it, and hold no slot of a query', async () => {
    const store = await redis();
    const edge = await starts.edge({ config: claimsIn(store.url), sandbox: { maxInFlight: 2 } });
    store.hang();
    const waiting = ['a', 'b', 'c'].map((orderId) => pay(edge, orderId));
    await claiming(edge, 3);
    expect((await edge.status()).status).toBe(200);
    expect((await Promise.all(waiting)).map(verdict)).toEqual([unavailable, unavailable, unavailable]);
    const began = performance.now();
    expect(verdict(await pay(edge, 'd'))).toBe(unavailable);
    expect(performance.now() - began).toBeLessThan(800);
    expect(edge.gateway.requests).toHaveLength(1);
    store.proceed();
    // Claims that the store made after all are removed.
    await payWhenUp(edge, 'other');
    for (const orderId of ['a', 'b', 'c', 'd']) expect((await pay(edge, orderId)).status).toBe(200);
    expect(causes(edge)).toContain('no response in time');
  });

  describe('a shutdown leaves none of what was not sent', () => {
    const ending = (store: string) => ({
      ...claimsIn(store, { timeout: '5s' }),
      proxy: { port: 0, timeouts: { shutdown: '200ms', shutdownDelay: '0s' } },
    });
    const expectNone = async (waiting: Promise<HttpResponse>, edge: Edge, store: RedisServer) => {
      const stopped = edge.stop();
      expect(verdict(await waiting)).toBe('503 shutting-down not-sent not-sent');
      store.proceed();
      await stopped;
      expect((await pay(await start(store.url, {}, edge.gateway))).status).toBe(200);
      expect(edge.gateway.requests).toHaveLength(1);
    };

    it('while it waits for the store', async () => {
      const store = await redis();
      const edge = await starts.edge({ config: ending(store.url) });
      store.hang();
      const waiting = pay(edge);
      await claiming(edge, 1);
      await expectNone(waiting, edge, store);
    });

    it('while it waits for its key', async () => {
      const store = await redis();
      const vault = starts.closing(await new VaultTestEnvironment({ clock: Date.now }).open());
      const keys = vaultKeys(vault.vault.address, { timeout: '8s' });
      const edge = await starts.edge({ config: { ...ending(store.url), keys } });
      vault.vault.fail({ kind: 'black-hole' });
      const waiting = pay(edge);
      await until(() => store.written().includes('requestId'), 'it is claimed');
      await expectNone(waiting, edge, store);
    });
  });

  it('are there for a time, whatever is stored under their name: nobody knows that it was not sent', async () => {
    const store = await redis();
    const edge = await start(store.url);
    await pay(edge);
    const [name = ''] = await claimNames(store);
    const stored = async () => String(await store.command('GET', name));
    await until(async () => (await stored()).includes('answered'), 'its end is stored');
    expect(await store.command('PTTL', name)).toBeGreaterThan(0);
    await store.command('SET', name, 'garbage');
    const repeat = await pay(edge);
    expect(verdict(repeat)).toBe(duplicate);
    expect(repeat.body).toContain('by a request of which nothing is known');
    await store.command('DEL', name);
    await store.command('LPUSH', name, 'a list');
    expect(verdict(await pay(edge))).toBe(duplicate);
    expect((await pay(edge, 'order-2')).status).toBe(200);
    expect(await edge.metric('claim_store_up')).toBe(1);
    expect(edge.gateway.requests).toHaveLength(2);
  });

  const rights = ['eval', 'get', 'set', 'del', 'pttl', 'ping', 'info'];
  const user = (names: readonly string[]) =>
    `--user countersign on >right ~countersign:once:* +${names.join(' +')} --user default off`.split(' ');

  it('need user and password, which are read for each connection', async () => {
    const store = await redis(...user(rights));
    const passwordFile = starts.folder().file('password', 'wrong\n');
    const edge = await start(store.url, { username: 'countersign', passwordFile });
    expect(verdict(await pay(edge))).toBe(unavailable);
    expect(causes(edge)).toContain('WRONGPASS');
    const lines = starts.folder().file('lines', 'right\nand more\n');
    expect(causes(await start(store.url, { passwordFile: lines }))).toContain('has more than one line');
    writeFileSync(passwordFile, 'right\n');
    expect((await payWhenUp(edge, 'order-1')).status).toBe(200);
    expect(verdict(await pay(edge))).toBe(duplicate);
    expect(edge.seen()).not.toMatch(/right|wrong/);
  });

  it.each(['set', 'del', 'pttl'])('need a user that may %s, as the start notices', async (missing) => {
    const store = await redis(...user(rights.filter((name) => name !== missing)));
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
    const other = starts.folder().file('other.key', 'o'.repeat(32));
    const stranger = await start(store.url, { keyFile: other }, one.gateway);
    expect(verdict(await pay(stranger))).toBe(unavailable);
    expect(causes(stranger)).toContain('CLAIMS live that were made with another key');
    expect(verdict(await pay(one))).toBe(duplicate);
  });

  it('are there after a failover to a replica that has them, and are not made in a replica', async () => {
    const primary = await redis('--repl-diskless-sync-delay', '0');
    const replica = await replicaOf(primary);
    const name = starts.closing(await startRelay(primary.port));
    const edge = await start(`redis://127.0.0.1:${name.port}`);
    const isUp = async () => String(await replica.command('INFO')).includes('link_status:up');
    await until(isUp, 'it replicates');
    const toReplica = await start(replica.url, {}, edge.gateway);
    expect(await toReplica.metric('claim_store_up')).toBe(0);
    expect(causes(toReplica)).toBe(`["READONLY You can't write against a read only replica."]`);
    expect(verdict(await pay(toReplica))).toBe(unavailable);
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

  it('are checked by check --online, with what could lose them', async () => {
    const folder = starts.folder();
    const keys = { source: 'directory', directory: folder.path } as const;
    const online = async ({ url }: RedisServer) => {
      const config = configFor(noGateway, { ...claimsIn(url), keys });
      const file = folder.file('check.yaml', JSON.stringify(config));
      const { checks } = JSON.parse((await run(['check', '--online', '--json', file])).out);
      const found: unknown = checks.find((one: { check: string }) => one.check === 'claims');
      return found;
    };
    const safe = await redis('--repl-diskless-sync-delay', '0');
    const ok = { check: 'claims', subject: safe.url, result: 'ok', detail: 'order IDs can be claimed' };
    expect(await online(safe)).toMatchObject(ok);
    for (const [args, detail] of [
      [['--maxmemory-policy', 'volatile-lru', '--appendonly', 'no'], /evict.*volatile-lru.*appendonly yes/],
      [['--appendfsync', 'everysec'], /claimed; a crash of the host .*appendfsync everysec/],
    ] as const)
      expect(await online(await redis(...args))).toMatchObject({
        result: 'warning',
        detail: expect.stringMatching(detail),
      });
    const replica = await replicaOf(safe);
    await until(async () => JSON.stringify(await online(safe)).includes('it has replicas'), 'a replica');
    const detail = "READONLY You can't write against a read only replica.";
    expect(await online(replica)).toMatchObject({ result: 'failed', detail });
    await safe.kill();
    const down = { result: 'failed', detail: expect.stringContaining('ECONNREFUSED') };
    expect(await online(safe)).toMatchObject(down);
  });

  it('are shown and released by countersign payments, with an audit record', async () => {
    const store = await redis();
    const edge = await start(store.url);
    const first = String((await pay(edge)).headers['x-request-id']);
    const audit = auditIn(starts.folder());
    const claims = (name: string, ...more: string[]) =>
      payments({ ...claimsIn(store.url), audit }, [name, ...place, ...more]);

    const shown = await claims('show', 'order-1');
    expect(shown.out).toContain(`request  ${first}`);
    expect(shown.out).toContain('outcome  answered 200');
    expect((await claims('show', 'order-2')).out).toContain('not claimed');
    expect(await claims('release', '--request', 'another', 'order-1')).toMatchObject({ code: 1 });
    expect(verdict(await pay(edge))).toBe(duplicate);
    expect(await claims('release', '--request', first, 'order-1')).toMatchObject({ code: 0, err: '' });
    expect((await pay(edge)).status).toBe(200);

    const records = recordsIn(audit.directory).filter((record) => record['audit'] === 'released');
    expect(records).toEqual([
      expect.objectContaining({ request: first, login: 'acme', clientOrderId: 'order-1' }),
    ]);
    const verified = await run(['audit', 'verify', audit.directory, '--key-file', audit.keyFile]);
    expect(verified).toMatchObject({ code: 0 });
  });

  it('of a payment that is sent again during its release are not taken for the released one', async () => {
    const store = await redis();
    const edge = await start(store.url);
    edge.gateway.respond = (response) => response.writeHead(500).end();
    const first = String((await pay(edge)).headers['x-request-id']);
    const again: Promise<HttpResponse>[] = [];
    // The next payment is faster than the response of the store to the release.
    const slow = await startStore((client) => {
      const server = connect(store.port, '127.0.0.1').on('error', () => {});
      client.on('data', (chunk) => {
        const isRelease = String(chunk).includes(first);
        server.write(chunk);
        server.once('data', (response) => {
          if (isRelease) again.push(pay(edge));
          void Promise.all(again).then(() => client.write(response));
        });
      });
      client.once('close', () => server.destroy());
    });
    const released = payments(claimsIn(slow), ['release', ...place, '--request', first, 'order-1']);
    expect(await released).toMatchObject({ code: 0, out: expect.stringContaining('Released') });
    expect((await again[0])?.status).toBe(500);
    expect(edge.gateway.requests).toHaveLength(2);
  });

  it('go over TLS to a server whose certificate is verified', async () => {
    const folder = starts.folder();
    const ca = new Ca(folder.path, 'redis-ca');
    const { certFile, keyFile } = ca.issue('redis');
    const tls = ['--tls-cert-file', certFile, '--tls-key-file', keyFile, '--tls-auth-clients', 'no'];
    const plain = await redis();
    const port = await freePort();
    await redis('--tls-port', String(port), ...tls);
    const url = `rediss://127.0.0.1:${port}`;
    const edge = await start(url, { caFile: ca.file });
    expect((await pay(edge)).status).toBe(200);
    expect(verdict(await pay(edge))).toBe(duplicate);
    const others = [url, plain.url.replace('redis:', 'rediss:')].map(async (store) =>
      verdict(await pay(await start(store, {}, edge.gateway), 'b')),
    );
    expect(await Promise.all(others)).toEqual([unavailable, unavailable]);
    const older = await freePort();
    await redis('--tls-port', String(older), ...tls, '--tls-protocols', 'TLSv1.2');
    const trusted = { caFile: ca.file, minVersion: '1.3' };
    const strict = await start(`rediss://127.0.0.1:${older}`, trusted, edge.gateway);
    expect(verdict(await pay(strict, 'c'))).toBe(unavailable);
  });
});

it.each([
  [['--operation', 'order-status', 'a'], '"order-status" is no operation with once'],
  [['--environment', 'nowhere', 'a'], 'unknown environment "nowhere"'],
  [[''], 'ORDER_ID is required'],
])('no claim is shown for %j', async (args, message) => {
  const shown = payments(claimsIn('redis://127.0.0.1:9'), ['show', ...place, ...args]);
  expect(await shown).toMatchObject({ code: 2, err: expect.stringContaining(message) });
});

/** A server in place of Redis. @returns its URL */
async function startStore(onConnection: Parameters<typeof createServer>[1]): Promise<string> {
  const server: Server = createServer(onConnection);
  server.on('connection', (socket) => socket.on('error', () => {}));
  const { port } = starts.closing(await listen(server));
  return `redis://127.0.0.1:${port}`;
}

it.each([':0\r\n', 'HTTP/1.1 200 OK\r\n\r\n', '*1000000000\r\n'])(
  'a store that responds %j to everything lets no payment through, and ends no process',
  async (response) => {
    const store = await startStore((socket) => {
      socket.on('data', () => socket.write(response, 'latin1'));
    });
    const edge = await start(store);
    expect(verdict(await pay(edge))).toBe(unavailable);
    expect((await edge.status()).status).toBe(200);
    expect(edge.gateway.requests).toHaveLength(1);
  },
);

it.each(['$1\r\na\r\n', ':1\r\n', '*1\r\n:1\r\n', '*0\r\n'])(
  'a store that responds %j to a claim, but not to the check, lets no payment through',
  async (response) => {
    const store = await startStore((socket) => {
      socket.on('data', (data) => socket.write(String(data).includes('requestId') ? response : ':1\r\n'));
    });
    const edge = await start(store);
    expect(await edge.metric('claim_store_up')).toBe(1);
    expect(verdict(await pay(edge))).toBe(unavailable);
    await until(() => causes(edge).includes('an invalid response'), 'the cause is logged');
    expect(await edge.metric('claim_duration_seconds_count', { environment: 'sandbox' })).toBe(1);
    expect(edge.gateway.requests).toHaveLength(0);
  },
);
