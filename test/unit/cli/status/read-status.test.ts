import { createServer } from 'node:http';
import { expect, it } from '@jest/globals';
import { readAll } from '../../../../src/cli/status/read-status.ts';
import { closedPort, startFaultyGateway, switching } from '../../../support/faulty-gateway.ts';
import { listen } from '../../../support/listening.ts';
import { emptyStatus } from '../../../support/status.ts';

it('reads the IPv6 addresses of a name, not the name', async () => {
  const urls = [new URL(`http://instances.example:${closedPort}/status.json`)];
  const resolve = async () => [{ address: '::1', family: 6 }];
  const settings = { urls, access: { token: undefined, tls: {} }, allowPlaintext: false };
  const { instances } = await readAll(settings, { resolve, timeout: 5_000, clock: Date.now });
  expect(instances).toMatchObject([{ address: `[::1]:${closedPort}`, ready: null }]);
});

it('takes half of the time of a request for the time of the status', async () => {
  const status = emptyStatus();
  const server = await listen(createServer((_request, response) => response.end(JSON.stringify(status))));
  try {
    const urls = [new URL(`http://127.0.0.1:${server.port}/status.json`)];
    const settings = { urls, access: { token: undefined, tls: {} }, allowPlaintext: false };
    // Sent a second before, received three seconds after.
    const times = [-1_000, 3_000].map((after) => Date.parse(status.at) + after);
    const clock = (): number => times.shift() ?? 0;
    const { instances } = await readAll(settings, { resolve: async () => [], timeout: 5_000, clock });
    expect(instances).toMatchObject([{ clockAhead: -1 }]);
  } finally {
    await server.close();
  }
});

it('has no status of what switches protocols, and does not wait for it', async () => {
  const server = await startFaultyGateway([switching]);
  try {
    const urls = [new URL(`${server.url}/status.json`)];
    const settings = { urls, access: { token: undefined, tls: {} }, allowPlaintext: false };
    const { instances } = await readAll(settings, {
      resolve: async () => [],
      timeout: 5_000,
      clock: Date.now,
    });
    expect(instances).toMatchObject([{ problem: expect.stringContaining('did not respond with HTTP') }]);
  } finally {
    await server.close();
  }
});

it('waits no longer for DNS than for an instance, and not at all once it is stopped', async () => {
  const urls = [new URL('http://instances.example:9090/status.json')];
  const settings = { urls, access: { token: undefined, tls: {} }, allowPlaintext: false };
  const options = { resolve: () => new Promise<never>(() => {}), clock: Date.now };
  await expect(readAll(settings, { ...options, timeout: 50 })).rejects.toThrow(
    'instances.example cannot be looked up within 0.05 s.',
  );
  const stop = new AbortController();
  const stopped = readAll(settings, { ...options, timeout: 60_000, signal: stop.signal });
  stop.abort();
  await expect(stopped).rejects.toThrow();
});
