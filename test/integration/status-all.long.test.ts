import { expect, it } from '@jest/globals';
import { status } from '../../src/cli/status/status.ts';
import { runCommandHere } from '../support/cli.ts';
import { harness } from '../support/harness.ts';

const starts = harness();
const count = 50;

it('fifty instances are read within two seconds', async () => {
  const { keysFolder: directory, gateway } = await starts.edge();
  gateway.respond = (response) => response.writeHead(200, { 'Content-Type': 'application/json' }).end('[]');
  const config = { keys: { source: 'directory', directory } } as const;
  const others = Array.from({ length: count }, () => starts.proxy({ gateway: gateway.url, config }));
  const proxies = await Promise.all(others);
  await Promise.all(proxies.map((proxy) => proxy.balance()));
  const all = proxies.map(({ adminUrl }) => adminUrl).join();
  const startedAt = performance.now();
  const { code, out } = await runCommandHere(status, '--all', all);
  const seconds = (performance.now() - startedAt) / 1000;
  console.info(`${count} instances in ${seconds.toFixed(2)} s`);
  expect(code).toBe(0);
  expect(out).toMatch(/^Well: 50 of 50 instances ready/);
  expect(out).toMatch(/control_key +\d+ +\d+ s +50 of 50 +50 +50 +0$/m);
  expect(seconds).toBeLessThan(2);
});
