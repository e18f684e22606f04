import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { samples } from '../support/exposition.ts';
import { always, type FaultyGateway, reply, startFaultyGateway } from '../support/faulty-gateway.ts';
import { paths, post, transferForm, until } from '../support/forwarding.ts';
import { configFor, type ServeProcess, spawnServe } from '../support/process.ts';

const partial = 'configuration reloaded; some fields require a restart';
const rejected = 'configuration reload failed; keeping the current one';

describe('SIGHUP', () => {
  let process: ServeProcess;
  let gateway: FaultyGateway;
  let next: FaultyGateway;
  let urls: { url: string; adminUrl: string };

  const gauge = async (name: string): Promise<number | undefined> =>
    samples(await (await fetch(`${urls.adminUrl}/metrics`)).text()).get(
      `countersign_config_last_reload_${name}`,
    );
  const logged = async (message: string, count = 1): Promise<void> =>
    until(() => process.lines(message).length === count);

  function reload(config: unknown): void {
    process.rewrite(config);
    process.signal('SIGHUP');
  }

  beforeEach(async () => {
    gateway = await startFaultyGateway([always(reply('200 OK', 'first'))]);
    next = await startFaultyGateway([always(reply('200 OK', 'next'))]);
    process = spawnServe({ config: configFor(gateway.url) });
    urls = await process.started();
  });
  afterEach(async () => {
    await process.clear();
    await Promise.all([gateway.close(), next.close()]);
  });

  it('with a changed port warns with the field name, and applies the rest', async () => {
    const admin = { port: 1, allowedHosts: ['metrics.example'] };
    reload(configFor(next.url, { admin, log: { level: 'debug' } }));
    await logged(partial);
    expect(process.lines(partial)).toEqual([
      expect.objectContaining({ level: 'warn', fields: 'admin.port, admin.allowedHosts, log.level' }),
    ]);
    expect(process.lines('configuration reloaded')).toEqual([]);
    expect((await post(`${urls.url}${paths.transfer}`, transferForm)).body).toBe('next');
    expect(await gauge('successful')).toBe(0);
    reload(configFor(next.url));
    await logged('configuration reloaded');
    expect(await gauge('successful')).toBe(1);
  });

  it('is a metric: successful or not, and when it last was', async () => {
    const started = (await gauge('success_timestamp_seconds')) ?? 0;
    expect(Math.abs(started - Date.now() / 1000)).toBeLessThan(30);
    expect(await gauge('successful')).toBe(1);
    reload({ unknown: 1 });
    await logged(rejected);
    expect(await gauge('successful')).toBe(0);
    expect(await gauge('success_timestamp_seconds')).toBe(started);
    const keys = { source: 'directory', directory: './keys' };
    const sandbox = { baseUrl: next.url, product: 'gw', caFile: './gone.pem' };
    reload(configFor(next.url, { keys, environments: { sandbox } }));
    await logged(rejected, 2);
    expect(await gauge('successful')).toBe(0);
    reload(configFor(next.url));
    await logged('configuration reloaded');
    expect(await gauge('successful')).toBe(1);
    expect(await gauge('success_timestamp_seconds')).toBeGreaterThan(started);
  });

  it('with a file that contains no certificate is not successful', async () => {
    writeFileSync(join(process.folder, 'bad.pem'), 'x');
    const sandbox = { baseUrl: next.url, product: 'gw', caFile: './bad.pem' };
    reload(configFor(gateway.url, { environments: { sandbox } }));
    await until(() => process.stdout().includes('configuration reload failed'));
    await until(async () => (await gauge('successful')) === 0);
  });

  it('with changed shutdown settings takes effect', async () => {
    const proxy = { port: 0, timeouts: { shutdownDelay: '30s' } };
    process.signal('SIGHUP');
    await logged('configuration reloaded');
    reload(configFor(gateway.url, { proxy }));
    await logged('configuration reloaded', 2);
    process.signal('SIGTERM');
    await until(async () => (await fetch(`${urls.adminUrl}/readyz`)).status === 503);
    expect((await post(`${urls.url}${paths.transfer}`, transferForm)).body).toBe('first');
  });
});
