import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { configFor } from '../support/config.ts';
import { always, type FaultyGateway, httpResponse, silent } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
import { type CountersignProcess } from '../support/process.ts';
import { until } from '../support/until.ts';

const partial = 'configuration reloaded; some fields require a restart';
const rejected = 'configuration reload failed; keeping the current one';

describe('SIGHUP', () => {
  const starts = harness();
  let process: CountersignProcess;
  let gateway: FaultyGateway;
  let next: FaultyGateway;

  const gauge = (name: string) => process.metric(`config_last_reload_${name}`);
  const logged = async (message: string, count = 1): Promise<void> =>
    until(() => process.logLines(message).length === count);

  function reload(config: unknown): void {
    process.rewrite(config);
    process.signal('SIGHUP');
  }

  beforeEach(async () => {
    gateway = await starts.gateway([always(httpResponse('200 OK', 'first'))]);
    next = await starts.gateway([always(httpResponse('200 OK', 'next'))]);
    process = await starts.process({ gateway: gateway.url });
  });

  it('with a changed log level warns with the field name, and applies the rest', async () => {
    reload(configFor(next.url, { log: { level: 'debug' } }));
    await logged(partial);
    expect(process.logLines(partial)).toEqual([
      expect.objectContaining({ level: 'warn', fields: 'log.level' }),
    ]);
    expect(process.logLines('configuration reloaded')).toEqual([]);
    expect((await process.transfer()).body).toBe('next');
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
    reload(configFor(next.url, {}, { caFile: './gone.pem' }));
    await logged(rejected, 2);
    expect(await gauge('successful')).toBe(0);
    reload(configFor(next.url));
    await logged('configuration reloaded');
    expect(await gauge('successful')).toBe(1);
    expect(await gauge('success_timestamp_seconds')).toBeGreaterThan(started);
  });

  it('warns of a caller in dry-run, as the start does', async () => {
    const warning = 'requests that the grants do not allow are let through: mode is dry-run';
    const trial = { name: 'trial', credentials: [{ anonymous: true as const }], mode: 'dry-run' as const };
    expect(process.logLines(warning)).toEqual([]);
    reload(configFor(next.url, { callers: [trial] }));
    await logged(warning);
    expect(process.logLines(warning)).toEqual([expect.objectContaining({ level: 'warn', caller: 'trial' })]);
    const started = await starts.process({ gateway: gateway.url, config: { callers: [trial] } });
    await until(() => started.logLines(warning).length === 1);
  });

  it('with a file that contains no certificate is not successful', async () => {
    writeFileSync(join(process.folder, 'bad.pem'), 'x');
    reload(configFor(next.url, {}, { caFile: './bad.pem' }));
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
    await until(async () => (await process.readiness()) === 503);
    expect((await process.transfer()).body).toBe('first');
  });
});

const starts = harness();

it('a reload while the process is shutting down is an error, and starts nothing', async () => {
  const { gateway, proxy } = await starts.pair([silent], {
    sandbox: { timeouts: { connect: '1s', request: '2s' } },
  });
  const waiting = proxy.transfer();
  await until(() => gateway.requests().length === 1);
  const stopped = proxy.stop();
  await expect(proxy.reload({})).rejects.toThrow('the process is shutting down');
  expect((await waiting).status).toBe(504);
  await stopped;
});
