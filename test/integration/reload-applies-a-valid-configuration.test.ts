import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  always,
  type FaultyGateway,
  reply,
  type Script,
  startFaultyGateway,
} from '../support/faulty-gateway.ts';
import {
  askBalance,
  counted,
  exchanges,
  paths,
  post,
  transfer,
  transferForm,
  until,
  verdict,
} from '../support/forwarding.ts';
import { configFor, type ServeProcess, spawnServe } from '../support/process.ts';
import { startProxy } from '../support/service.ts';

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(stops.splice(0).map((stop) => stop()));
});

async function startGateway(...scripts: Script[]): Promise<FaultyGateway> {
  const gateway = await startFaultyGateway(scripts);
  stops.push(gateway.close);
  return gateway;
}

const environments = (gateway: string) => ({
  sandbox: { baseUrl: gateway, product: 'gw', endpoints: { '1234': 'acme' } },
});

describe('SIGHUP', () => {
  async function serveTwo(): Promise<{ process: ServeProcess; url: string; next: FaultyGateway }> {
    const first = await startGateway(always(reply('200 OK', 'first')));
    const next = await startGateway(always(reply('200 OK', 'next')));
    const process = spawnServe({ config: configFor(first.url) });
    stops.push(process.clear);
    const { url } = await process.started();
    expect((await post(`${url}${paths.transfer}`, transferForm)).body).toBe('first');
    return { process, url, next };
  }

  it('takes a good file for the requests to come', async () => {
    const { process, url, next } = await serveTwo();
    process.rewrite(configFor(next.url));
    process.signal('SIGHUP');
    await until(() => process.lines('configuration reloaded').length === 1);
    expect((await post(`${url}${paths.transfer}`, transferForm)).body).toBe('next');
    process.signal('SIGTERM');
    expect(await process.ended).toBe(0);
  });

  it('keeps the running configuration when the file is bad, and logs every problem', async () => {
    const { process, url, next } = await serveTwo();
    const bad = { ...configFor(next.url), keys: { source: 'somewhere' }, unknown: 1 };
    process.rewrite(bad);
    process.signal('SIGHUP');
    await until(() => process.lines('configuration reload failed; keeping the current one').length === 1);
    expect(process.stdout()).toMatch(/"level":"error"[^\n]*unknown/);
    expect(process.stdout()).toMatch(/"level":"error"[^\n]*keys/);
    expect((await post(`${url}${paths.transfer}`, transferForm)).body).toBe('first');
    process.rewrite(configFor(next.url));
    process.signal('SIGHUP');
    await until(() => process.lines('configuration reloaded').length === 1);
    expect((await post(`${url}${paths.transfer}`, transferForm)).body).toBe('next');
  });

  it('survives a missing file', async () => {
    const { process, url } = await serveTwo();
    rmSync(join(process.folder, 'config.yaml'));
    process.signal('SIGHUP');
    await until(() => process.lines('configuration reload failed; keeping the current one').length === 1);
    expect((await post(`${url}${paths.transfer}`, transferForm)).body).toBe('first');
  });
});

describe('a reload', () => {
  it('lets in-flight requests finish with the old configuration', async () => {
    const going = Promise.withResolvers<void>();
    const held: Script = async ({ request, end }) => {
      await request();
      await going.promise;
      end(reply('200 OK', 'first'));
    };
    const first = await startGateway(held);
    const next = await startGateway(always(reply('200 OK', 'next')));
    const proxy = await startProxy({ gateway: first.url });
    stops.push(() => proxy.stop());
    const responses = [transfer(proxy), askBalance(proxy)];
    await until(() => first.requests().length === 2);
    await proxy.reload({ environments: environments(next.url) });
    expect(await transfer(proxy)).toMatchObject({ body: 'next' });
    going.resolve();
    expect((await Promise.all(responses)).map(({ body }) => body)).toEqual(['first', 'first']);
    expect(await counted(proxy, 'requests_in_flight')).toBe(0);
    expect((await exchanges(proxy, 3)).every(({ outcome }) => outcome === 'answered')).toBe(true);
  });

  it('closes idle connections to the gateway', async () => {
    const closed = Promise.withResolvers<void>();
    const kept: Script = async (conversation) => {
      conversation.socket.once('close', () => closed.resolve());
      await always(reply('200 OK', '[]'))(conversation);
    };
    const gateway = await startGateway(kept);
    const proxy = await startProxy({ gateway: gateway.url });
    stops.push(() => proxy.stop());
    await askBalance(proxy);
    await proxy.reload({});
    await closed.promise;
    expect(await askBalance(proxy)).toMatchObject({ status: 200 });
    expect(gateway.connections()).toBe(2);
  });

  it('keeps cached keys, even while their source is unavailable', async () => {
    const gateway = await startGateway(always(reply('200 OK', '[]')));
    const proxy = await startProxy({ gateway: gateway.url });
    stops.push(() => proxy.stop());
    await askBalance(proxy);
    rmSync(proxy.keysFolder, { recursive: true });
    await proxy.reload({ environments: environments(gateway.url) });
    expect(await askBalance(proxy)).toMatchObject({ status: 200 });
    expect(await counted(proxy, 'key_cache_lookups_total', { result: 'fetched' })).toBe(1);
  });

  it('with another key folder signs with the keys of that folder', async () => {
    const gateway = await startGateway(always(reply('200 OK', '[]')));
    const proxy = await startProxy({ gateway: gateway.url });
    const other = await startProxy({ gateway: gateway.url });
    stops.push(
      () => proxy.stop(),
      () => other.stop(),
    );
    await askBalance(proxy);
    rmSync(join(other.keysFolder, 'sandbox', 'acme', 'control_key'));
    await proxy.reload({ keys: { source: 'directory', directory: other.keysFolder } });
    expect(verdict(await askBalance(proxy))).toMatch(/^502 key-missing not-sent/);
    expect(await transfer(proxy)).toMatchObject({ status: 200 });
  });

  it('takes another limit of connections', async () => {
    const gateway = await startGateway(always(reply('200 OK', '[]')));
    const proxy = await startProxy({ gateway: gateway.url });
    const { port } = new URL(proxy.url);
    const held = connect(Number(port), '127.0.0.1');
    stops.push(
      async () => held.destroy(),
      () => proxy.stop(),
    );
    await once(held, 'connect');
    expect((await askBalance(proxy)).status).toBe(200);
    expect(await proxy.reload({ proxy: { port: 0, maxConnections: 1 } })).toEqual([]);
    await expect(askBalance(proxy)).rejects.toThrow();
    expect(await counted(proxy, 'connections_dropped_total')).toBe(1);
  });

  it('that names a file which is not there changes nothing', async () => {
    const first = await startGateway(always(reply('200 OK', 'first')));
    const next = await startGateway(always(reply('200 OK', 'next')));
    const proxy = await startProxy({ gateway: first.url });
    stops.push(() => proxy.stop());
    const sandbox = { ...environments(next.url).sandbox, caFile: join(proxy.keysFolder, 'gone.pem') };
    await expect(proxy.reload({ environments: { sandbox } })).rejects.toThrow('does not exist');
    expect(await transfer(proxy)).toMatchObject({ body: 'first' });
  });
});
