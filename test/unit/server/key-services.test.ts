import { afterEach, describe, expect, it } from '@jest/globals';
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

/** What reloads report: where keys come from, and whether they are the same keys. */
function create() {
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
  return { replaced, reload };
}

it('a reload reports another source, and whether it has the same keys, but not other settings of the cache', async () => {
  const { replaced, reload } = create();
  const source = { source: 'directory', directory: '/nowhere' };
  await reload(source);
  await reload(source);
  await reload({ ...source, cache: { ttl: '5s' } });
  expect(replaced).toEqual([]);
  await reload({ ...source, rotationGracePeriod: '2h' });
  await reload({ ...source, directory: '/elsewhere' });
  expect(replaced).toEqual(['directory with the same keys', 'directory with other keys']);
});

describe('keys in Vault', () => {
  // No server listens there: the discard port.
  const vault = { address: 'https://127.0.0.1:9', auth: { method: 'token', token: 'first' } };
  const egressProxy = { url: 'http://127.0.0.1:9', username: 'shop', password: 'first' };

  it.each<[string, object, object, boolean]>([
    ['address', {}, { address: 'https://127.0.0.2:9' }, false],
    ['namespace', {}, { namespace: 'team' }, false],
    ['mount', {}, { mount: 'other' }, false],
    ['mounts of Transit', {}, { transit: { mounts: { sandbox: 'transit' } } }, false],
    ['token', {}, { auth: { method: 'token', token: 'second' } }, true],
    [
      'password of the egress proxy',
      { egressProxy },
      { egressProxy: { ...egressProxy, password: 'x' } },
      true,
    ],
  ])('come from another source after a reload with another %s', async (_field, before, after, keepsKeys) => {
    const { replaced, reload } = create();
    await reload({ source: 'vault', vault: { ...vault, ...before } });
    await reload({ source: 'vault', vault: { ...vault, ...before } });
    expect(replaced).toEqual([]);
    await reload({ source: 'vault', vault: { ...vault, ...after } });
    expect(replaced).toEqual([keepsKeys ? 'vault with the same keys' : 'vault with other keys']);
  });
});
