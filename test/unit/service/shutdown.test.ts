import { createServer } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { configSchema } from '../../../src/config/schema.ts';
import { createLogger } from '../../../src/observability/logger.ts';
import { startCountersign } from '../../../src/service/lifecycle.ts';
import { auditIn, recordsIn } from '../../support/audit.ts';
import { configFor } from '../../support/config.ts';
import { paths, post, transferForm, verdict } from '../../support/forwarding.ts';
import { harness } from '../../support/harness.ts';
import { listen } from '../../support/listening.ts';
import { testKeys, writeKeys } from '../../support/service.ts';
import { until } from '../../support/until.ts';

const starts = harness();

/** A service with a payment in flight, to which the gateway responds when it is released. */
async function startHeld(shutdown: string) {
  const folder = starts.folder();
  const released = Promise.withResolvers<void>();
  const gateway = await starts.recordingGateway();
  gateway.respond = (response) => void released.promise.then(() => response.end('status=approved\n'));
  writeKeys(folder.path, 'sandbox', 'acme', testKeys);
  const audit = auditIn(folder);
  const input = configFor(gateway.url, {
    keys: { source: 'directory', directory: folder.path },
    proxy: { port: 0, timeouts: { shutdownDelay: '0s', shutdown } },
    audit,
  });
  const lines: string[] = [];
  const log = createLogger('info', { write: (line) => void lines.push(line) });
  const service = await startCountersign({ config: configSchema.parse(input), digest: 'digest' }, { log });
  const response = post(`${service.proxyUrl}${paths.transfer}`, transferForm);
  await until(() => gateway.requests.length === 1);
  let stopped: Promise<boolean> | undefined;
  const stop = () => (stopped ??= service.stop(Promise.resolve()));
  starts.atEnd(() => {
    released.resolve();
    return stop();
  });
  /** Another payment. */
  const send = () => post(`${service.proxyUrl}${paths.transfer}`, transferForm);
  const readiness = async () => {
    const { status } = await fetch(`${service.adminUrl}/readyz`);
    return status;
  };
  const completed = () => lines.filter((line) => line.includes('"request completed"'));
  return {
    service,
    stop,
    response,
    send,
    readiness,
    completed,
    audit,
    release: () => released.resolve(),
  };
}

describe('a shutdown', () => {
  it('waits for a request in flight, accepts no further one, and says on /readyz that it goes on', async () => {
    const { stop, response, send, readiness, completed, audit, release } = await startHeld('10s');
    expect(await readiness()).toBe(200);
    const stopped = stop();
    expect(await readiness()).toBe(503);
    await expect(send()).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    expect(await readiness()).toBe(503);
    release();
    expect(await response).toMatchObject({ status: 200, body: 'status=approved\n' });
    expect(await stopped).toBe(true);
    expect(completed()).toHaveLength(1);
    expect(recordsIn(audit.directory).map(({ audit: kind }) => kind)).toEqual([
      'start',
      'intent',
      'result',
      'stop',
    ]);
    await expect(readiness()).rejects.toThrow('fetch failed');
  });

  it('aborts a payment that takes longer than its time, with an unknown outcome', async () => {
    const { stop, response, completed } = await startHeld('0s');
    expect(await stop()).toBe(false);
    expect(verdict(await response)).toBe('504 gateway-timeout unknown unknown');
    expect(completed()).toHaveLength(1);
  });
});

it('after a crash a payment in flight is aborted, and its outcome is in the response, the log and the trail', async () => {
  const { service, response, send, completed, audit } = await startHeld('10s');
  await service.abort();
  await expect(send()).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  expect(verdict(await response)).toBe('504 gateway-timeout unknown unknown');
  expect(completed()).toHaveLength(1);
  expect(recordsIn(audit.directory).map(({ audit: kind }) => kind)).toEqual([
    'start',
    'intent',
    'result',
    'stop',
  ]);
});

it('a start opens both ports or none', async () => {
  const used = starts.closing(await listen(createServer()));
  const listening = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPServerWrap').length;
  await until(() => listening() === 1, 'earlier ports are closed');
  const started = starts.proxy({ config: { admin: { port: used.port } } });
  await expect(started).rejects.toMatchObject({ code: 'EADDRINUSE' });
  await until(() => listening() === 1, 'no other port is open', 3);
});
