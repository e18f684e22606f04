import { afterEach, expect, it } from '@jest/globals';
import { configSchema } from '../../../src/config/schema.ts';
import { createPrometheus } from '../../../src/observability/prometheus.ts';
import { createKeyServices, type KeyServices } from '../../../src/server/key-services.ts';
import { system } from '../../../src/server/system.ts';
import { routesOf } from '../../support/routes.ts';

let inUse: KeyServices | undefined;
afterEach(async () => {
  await inUse?.stop();
  inUse = undefined;
});

it('a reload reports another source, and whether it has the same keys, but not other settings of the cache', async () => {
  const replaced: string[] = [];
  const metrics = {
    ...createPrometheus({ version: '0', routes: routesOf() }),
    keySourceReplaced: (source: string, keepsKeys: boolean) => {
      replaced.push(`${source} ${keepsKeys ? 'with the same keys' : 'with other keys'}`);
    },
  };
  const reload = async (keys: object): Promise<void> => {
    const config = configSchema.parse({
      environments: { sandbox: { baseUrl: 'http://127.0.0.1:1', product: 'gw' } },
      keys,
      callers: [{ name: 'local', credentials: [{ anonymous: true }] }],
    });
    const previous = inUse;
    inUse = createKeyServices(config.keys, {}, { ...system, metrics }, previous);
    if (previous !== inUse) await previous?.stop(inUse);
  };
  const source = { source: 'directory', directory: '/nowhere' };
  await reload(source);
  await reload(source);
  await reload({ ...source, cache: { ttl: '5s' } });
  expect(replaced).toEqual([]);
  await reload({ ...source, rotationGracePeriod: '2h' });
  await reload({ ...source, directory: '/elsewhere' });
  expect(replaced).toEqual(['directory with the same keys', 'directory with other keys']);
});
