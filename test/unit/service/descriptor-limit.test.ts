import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { configSchema } from '../../../src/config/schema.ts';
import { coreDumpProblem, descriptorsNeeded, openFilesLimit } from '../../../src/service/start-checks.ts';

it('the descriptors needed are those of both listeners, of all gateways, and a reserve', () => {
  const config = configSchema.parse({
    proxy: { maxConnections: 1000 },
    admin: { maxConnections: 20 },
    environments: {
      sandbox: { baseUrl: 'https://a.test', product: 'gw', maxInFlight: 7 },
      production: { baseUrl: 'https://b.test', product: 'gw', maxInFlight: 30 },
    },
    keys: { source: 'directory', directory: 'keys' },
  });
  expect(descriptorsNeeded(config)).toBe(1000 + 20 + 2 * 7 + 2 * 30 + 100);
});

it('the soft limit is read from the text of the kernel', () => {
  const text = readFileSync('/proc/self/limits', 'utf8');
  expect(openFilesLimit(text)).toBeGreaterThan(0);
  expect(openFilesLimit('Max open files            1024                 4096                 files')).toBe(
    1024,
  );
  expect(
    openFilesLimit('Max open files            unlimited            unlimited            files'),
  ).toBeUndefined();
  expect(openFilesLimit('')).toBeUndefined();
});

it.each([
  ['0                    unlimited            bytes', false],
  ['0                    0                    bytes', false],
  ['unlimited            unlimited            bytes', true],
  ['4096                 unlimited            bytes', true],
])('core dumps with the limits %s are allowed: %s', (limits, isAllowed) => {
  const problem = coreDumpProblem(`Max cpu time  unlimited\nMax core file size        ${limits}\n`);
  expect(problem !== undefined).toBe(isAllowed);
  expect(coreDumpProblem('')).toBeUndefined();
});
