import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { configFor, environmentFor } from '../support/config.ts';
import { always, type FaultyGateway, httpResponse, type Script } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
import { startOidcServer } from '../support/oidc-server.ts';
import { until } from '../support/until.ts';

const starts = harness();

const startGateway = (body: string): Promise<FaultyGateway> =>
  starts.gateway([always(httpResponse('200 OK', body))]);

const environments = (gateway: string) => ({ sandbox: environmentFor(gateway) });

it('SIGHUP applies a valid file; an invalid or missing one changes nothing, and is an error and a metric', async () => {
  const first = await startGateway('first');
  const next = await startGateway('next');
  const process = await starts.process({ gateway: first.url });
  const failed = 'configuration reload failed; keeping the current one';
  const reloaded = async (message: string, count: number): Promise<void> => {
    process.signal('SIGHUP');
    await until(() => process.stdout().split(message).length === count + 1);
  };
  const isSuccessful = () => process.metric('config_last_reload_successful');
  expect(await isSuccessful()).toBe(1);
  expect(process.logLines('requests without credentials are accepted')).toHaveLength(1);
  process.rewrite({ ...configFor(next.url), keys: { source: 'somewhere' }, unknown: 1 });
  await reloaded(failed, 1);
  expect(process.stdout()).toMatch(/"level":"error"[^\n]*unknown/);
  expect(process.stdout()).toMatch(/"level":"error"[^\n]*keys/);
  rmSync(join(process.folder, 'config.yaml'));
  await reloaded(failed, 2);
  expect((await process.transfer()).body).toBe('first');
  expect(await isSuccessful()).toBe(0);
  const proxy = { port: 0, timeouts: { shutdownDelay: '30s' } };
  process.rewrite(configFor(next.url, { proxy }));
  await reloaded('configuration reloaded', 1);
  expect((await process.transfer()).body).toBe('next');
  expect(await isSuccessful()).toBe(1);
  // Settings of the shutdown too.
  process.signal('SIGTERM');
  await until(async () => (await process.readiness()) === 503);
  expect((await process.transfer()).body).toBe('next');
  // The start of a process may take a busy machine 10 s.
}, 60_000);

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

  it('applies a changed connection limit, and changed times', async () => {
    const { proxy } = await starts.pair([always(httpResponse('200 OK', '[]'))]);
    const slow = starts.closing(await proxy.connect());
    expect((await proxy.balance()).status).toBe(200);
    expect(await proxy.reload({ proxy: { port: 0, timeouts: { headers: '300ms' } } })).toEqual([]);
    expect((await slow.send('POST / HTTP/1.1\r\n').response()).status).toBe(408);
    await slow.ended();
    starts.closing(await proxy.connect());
    expect(await proxy.reload({ proxy: { port: 0, maxConnections: 1 } })).toEqual([]);
    await expect(proxy.balance()).rejects.toThrow();
    expect(await proxy.counted('connections_dropped_total')).toBe(1);
  });

  it('with a key source that does not respond, another port or a missing file changes nothing', async () => {
    const first = await startGateway('first');
    const next = await startGateway('next');
    const proxy = await starts.proxy({ gateway: first.url });
    const issuer = starts.closing(await startOidcServer());
    const jwtIssuers = { idp: { issuer: issuer.url, audience: 'a', jwks: { url: `${issuer.url}/keys` } } };
    const others = { environments: environments(next.url), jwtIssuers };
    const keys = { source: 'directory' as const, directory: join(proxy.keysFolder, 'gone') };
    const sandbox = { ...environments(next.url).sandbox, caFile: join(proxy.keysFolder, 'gone.pem') };
    for (const [config, error] of [
      [{ keys }, 'the new key source cannot be used: cannot read the directory'],
      [{ admin: { port: 1 } }, 'host or port of admin changed, which requires a restart'],
      [{ environments: { sandbox } }, 'does not exist'],
    ] as const)
      await expect(proxy.reload({ ...others, ...config })).rejects.toThrow(error);
    expect(issuer.fetches()).toBe(0);
    expect(await proxy.transfer()).toMatchObject({ body: 'first' });
    expect(await proxy.counted('key_source_up')).toBe(1);
  });

  it('is rejected once the process is shutting down', async () => {
    const proxy = await starts.proxy();
    const stopped = proxy.stop();
    await expect(proxy.reload({})).rejects.toThrow('the process is shutting down');
    await stopped;
  });
});
