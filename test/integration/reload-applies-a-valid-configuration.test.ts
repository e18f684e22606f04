import { rmSync } from 'node:fs';
import { Agent } from 'node:http';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { configFor, environmentFor } from '../support/config.ts';
import {
  always,
  type FaultyGateway,
  freePort,
  httpResponse,
  type Script,
} from '../support/faulty-gateway.ts';
import { paths, post, verdict } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { startOidcServer } from '../support/oidc-server.ts';
import { type CountersignProcess } from '../support/process.ts';
import { until } from '../support/until.ts';

const starts = harness();

const startGateway = (body: string): Promise<FaultyGateway> =>
  starts.gateway([always(httpResponse('200 OK', body))]);

const environments = (gateway: string) => ({ sandbox: environmentFor(gateway) });

describe('SIGHUP', () => {
  async function serveTwo(): Promise<{ process: CountersignProcess; next: FaultyGateway }> {
    const first = await startGateway('first');
    const next = await startGateway('next');
    const process = await starts.process({ gateway: first.url });
    expect((await process.transfer()).body).toBe('first');
    return { process, next };
  }

  it('applies a valid file to new requests', async () => {
    const { process, next } = await serveTwo();
    process.rewrite(configFor(next.url));
    process.signal('SIGHUP');
    await until(() => process.logLines('configuration reloaded').length === 1);
    expect((await process.transfer()).body).toBe('next');
    expect(await process.stop()).toBe(0);
    // The start of a process may take a busy machine 10 s.
  }, 60_000);

  it('keeps the current configuration if the file is invalid, and logs every problem', async () => {
    const { process, next } = await serveTwo();
    const bad = { ...configFor(next.url), keys: { source: 'somewhere' }, unknown: 1 };
    process.rewrite(bad);
    process.signal('SIGHUP');
    await until(() => process.logLines('configuration reload failed; keeping the current one').length === 1);
    expect(process.stdout()).toMatch(/"level":"error"[^\n]*unknown/);
    expect(process.stdout()).toMatch(/"level":"error"[^\n]*keys/);
    expect((await process.transfer()).body).toBe('first');
    process.rewrite(configFor(next.url));
    process.signal('SIGHUP');
    await until(() => process.logLines('configuration reloaded').length === 1);
    expect((await process.transfer()).body).toBe('next');
  });

  it('survives a missing file', async () => {
    const { process } = await serveTwo();
    rmSync(join(process.folder, 'config.yaml'));
    process.signal('SIGHUP');
    await until(() => process.logLines('configuration reload failed; keeping the current one').length === 1);
    expect((await process.transfer()).body).toBe('first');
  });
});

describe('a reload', () => {
  it('lets in-flight requests finish with the old configuration', async () => {
    const going = Promise.withResolvers<void>();
    const held: Script = async ({ request, end }) => {
      await request();
      await going.promise;
      end(httpResponse('200 OK', 'first'));
    };
    const first = await starts.gateway([held]);
    const next = await startGateway('next');
    const proxy = await starts.proxy({ gateway: first.url });
    const responses = [proxy.transfer(), proxy.balance()];
    await until(() => first.requests().length === 2);
    await proxy.reload({ environments: environments(next.url) });
    expect(await proxy.transfer()).toMatchObject({ body: 'next' });
    going.resolve();
    expect((await Promise.all(responses)).map(({ body }) => body)).toEqual(['first', 'first']);
    expect(await proxy.counted('requests_in_flight')).toBe(0);
    expect((await proxy.requestLines(3)).every(({ outcome }) => outcome === 'answered')).toBe(true);
  });

  it('closes idle connections to the gateway', async () => {
    const closed = Promise.withResolvers<void>();
    const kept: Script = async (conversation) => {
      conversation.socket.once('close', () => closed.resolve());
      await always(httpResponse('200 OK', '[]'))(conversation);
    };
    const { gateway, proxy } = await starts.pair([kept]);
    await proxy.balance();
    await proxy.reload({});
    await closed.promise;
    expect(await proxy.balance()).toMatchObject({ status: 200 });
    expect(gateway.connections()).toBe(2);
  });

  it('keeps cached keys, even while their source is unavailable', async () => {
    const { gateway, proxy } = await starts.pair([always(httpResponse('200 OK', '[]'))]);
    await proxy.balance();
    rmSync(proxy.keysFolder, { recursive: true });
    await proxy.reload({ environments: environments(gateway.url) });
    expect(await proxy.balance()).toMatchObject({ status: 200 });
    expect(await proxy.counted('key_cache_lookups_total', { result: 'fetched' })).toBe(1);
  });

  it('with another key folder uses the keys of that folder', async () => {
    const { gateway, proxy } = await starts.pair([always(httpResponse('200 OK', '[]'))]);
    const other = await starts.proxy({ gateway: gateway.url });
    await proxy.balance();
    rmSync(join(other.keysFolder, 'sandbox', 'acme', 'control_key'));
    await proxy.reload({ keys: { source: 'directory', directory: other.keysFolder } });
    expect(verdict(await proxy.balance())).toMatch(/^502 key-missing not-sent/);
    expect(await proxy.transfer()).toMatchObject({ status: 200 });
  });

  it('applies a changed connection limit', async () => {
    const { proxy } = await starts.pair([always(httpResponse('200 OK', '[]'))]);
    starts.closing(await proxy.connect());
    expect((await proxy.balance()).status).toBe(200);
    expect(await proxy.reload({ proxy: { port: 0, maxConnections: 1 } })).toEqual([]);
    await expect(proxy.balance()).rejects.toThrow();
    expect(await proxy.counted('connections_dropped_total')).toBe(1);
  });

  it('with another key source that does not respond changes nothing', async () => {
    const first = await startGateway('first');
    const next = await startGateway('next');
    const proxy = await starts.proxy({ gateway: first.url });
    const keys = { source: 'directory' as const, directory: join(proxy.keysFolder, 'gone') };
    const issuer = await startOidcServer();
    starts.atEnd(() => issuer.close());
    const jwtIssuers = { idp: { issuer: issuer.url, audience: 'a', jwks: { url: `${issuer.url}/keys` } } };
    const others = { environments: environments(next.url), jwtIssuers };
    await expect(proxy.reload({ ...others, keys })).rejects.toThrow(
      'the new key source cannot be used: cannot read the directory',
    );
    expect(issuer.fetches()).toBe(0);
    expect(await proxy.transfer()).toMatchObject({ body: 'first' });
    expect(await proxy.counted('key_source_up')).toBe(1);
  });

  it('opens another port beside the one in use, which ends when its requests are complete', async () => {
    const { proxy } = await starts.pair([always(httpResponse('200 OK', '[]'))]);
    const kept = new Agent({ keepAlive: true });
    starts.atEnd(() => kept.destroy());
    const send = async (url: string): Promise<number> =>
      (await post(`${url}${paths.balance}`, '', {}, { agent: kept })).status;
    expect(await send(proxy.url)).toBe(200);
    const port = await freePort();
    expect(await proxy.reload({ proxy: { port } })).toEqual([]);
    expect(await send(`http://127.0.0.1:${port}`)).toBe(200);
    await expect(send(proxy.url)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  it('with a port that is in use changes nothing', async () => {
    const first = await startGateway('first');
    const next = await startGateway('next');
    const proxy = await starts.proxy({ gateway: first.url });
    const config = { environments: environments(next.url), admin: { port: Number(new URL(next.url).port) } };
    await expect(proxy.reload(config)).rejects.toMatchObject({ code: 'EADDRINUSE' });
    expect(await proxy.transfer()).toMatchObject({ body: 'first' });
  });

  it('is rejected once the process is shutting down', async () => {
    const proxy = await starts.proxy();
    const stopped = proxy.stop();
    await expect(proxy.reload({})).rejects.toThrow('the process is shutting down');
    await stopped;
  });

  it('that names a missing file changes nothing', async () => {
    const first = await startGateway('first');
    const next = await startGateway('next');
    const proxy = await starts.proxy({ gateway: first.url });
    const sandbox = { ...environments(next.url).sandbox, caFile: join(proxy.keysFolder, 'gone.pem') };
    await expect(proxy.reload({ environments: { sandbox } })).rejects.toThrow('does not exist');
    expect(await proxy.transfer()).toMatchObject({ body: 'first' });
  });
});

it('the time when a configuration was loaded is in the metrics, in seconds', async () => {
  const proxy = await starts.proxy({ clock: () => 1_700_000_000_000 });
  expect(await proxy.counted('config_last_reload_success_timestamp_seconds')).toBe(1_700_000_000);
});
