import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { configSchema } from '../../../src/config/schema.ts';
import { createDebugLog } from '../../../src/observability/debug-log.ts';
import { createPrometheus } from '../../../src/observability/prometheus.ts';
import { createKeyServices, type KeyServices } from '../../../src/service/key-services.ts';
import { system } from '../../../src/service/system.ts';
import { Folder } from '../../support/folder.ts';
import { routesOf } from '../../support/routes.ts';
import { testKeys, writeKeys } from '../../support/service.ts';
import { until } from '../../support/until.ts';

let inUse: KeyServices | undefined;
afterEach(async () => {
  await inUse?.stop();
  inUse = undefined;
});

/** What reloads report: where keys come from, and whether they are the same keys; and what a source reports. */
function create(options: Partial<Parameters<typeof createKeyServices>[2]> = {}) {
  const replaced: string[] = [];
  const reported: string[] = [];
  const metrics = {
    ...createPrometheus({ version: '0', routes: routesOf() }),
    keySourceReplaced: (source: string, keepsKeys: boolean) => {
      replaced.push(`${source} ${keepsKeys ? 'with the same keys' : 'with other keys'}`);
    },
    keySourceUp: (up: boolean, cause?: string) => void reported.push(up ? 'up' : `down: ${cause}`),
    loginsDenied: (logins: number, cause: string) => void reported.push(`${logins} denied: ${cause}`),
    loginFailed: (problem: string) => void reported.push(`login: ${problem}`),
    tokenExpiryChanged: (at?: number, lease?: number) => void reported.push(`token: ${at} of ${lease}`),
  };
  const reload = async (keys: object): Promise<void> => {
    const config = configSchema.parse({
      environments: { sandbox: { baseUrl: 'http://127.0.0.1:1', product: 'gw' } },
      keys,
      callers: [{ name: 'local', credentials: [{ anonymous: true }] }],
    });
    const previous = inUse;
    inUse = createKeyServices(config.keys, {}, { ...system, metrics, ...options }, previous);
    if (previous !== inUse) await previous?.stop(inUse);
  };
  return { replaced, reported, reload };
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

describe('what a source reports', () => {
  const source = { source: 'directory', directory: '/nowhere' };
  const reportAll = (services: KeyServices | undefined): void => {
    if (services === undefined) throw new TypeError('no services');
    const { events } = services.reports;
    events.loginsDenied(2, 'denied');
    events.tokenExpiryChanged(5, 7);
    events.loginFailed('wrong');
    events.keySourceUp(true);
    events.keySourceUp(false);
  };
  const all = ['2 denied: denied', 'token: 5 of 7', 'login: wrong', 'down: wrong', 'up', 'down: unknown'];

  it('is passed on, also after a reload that keeps it', async () => {
    const { reported, reload } = create();
    await reload(source);
    reportAll(inUse);
    expect(reported.splice(0)).toEqual(all);
    const before = inUse;
    await reload({ ...source, cache: { ttl: '5s' } });
    reportAll(before);
    expect(reported).toEqual(all);
  });

  it('says nothing about the one that a reload replaced it with', async () => {
    const { reported, reload } = create();
    await reload(source);
    const before = inUse;
    await reload({ ...source, directory: '/elsewhere' });
    reportAll(before);
    expect(reported).toEqual([]);
  });
});

describe('what is known of the keys of a login', () => {
  let folder: Folder;
  beforeEach(() => {
    folder = new Folder();
    writeKeys(folder.path, 'sandbox', 'acme', testKeys);
  });
  afterEach(() => folder.remove());
  const acme = { environment: 'sandbox', login: 'acme' };
  const services = (): KeyServices => {
    if (inUse === undefined) throw new TypeError('no services');
    return inUse;
  };

  it('is kept by a reload while they are in the same place, and not if they are in another one', async () => {
    const { reload } = create();
    const source = { source: 'directory', directory: folder.path };
    await reload(source);
    await services().reader.read(acme, 'request');
    const login = services().table.find(acme);
    expect(login?.ring).toHaveLength(2);
    await reload({ ...source, cache: { ttl: '5s' } });
    expect(services().table.find(acme)).toBe(login);
    await reload({ ...source, rotationGracePeriod: '2h' });
    expect(services().table.find(acme)).toBe(login);
    await reload({ ...source, directory: '/elsewhere' });
    expect(services().table.find(acme)).toBeUndefined();
  });

  it('is read again without a request when the ttl is over, also after a reload, until the end', async () => {
    const { reload } = create();
    const source = { source: 'directory', directory: folder.path, cache: { ttl: '1s' } };
    await reload(source);
    await services().reader.read(acme, 'request');
    await reload(source);
    writeKeys(folder.path, 'sandbox', 'acme', { ...testKeys, controlKey: 'another one' });
    await until(() => services().table.peek(acme)?.ring.length === 3, 'the new key is read', 10);
  });

  it('tells the debug log of a look after a rejection', async () => {
    const lines: object[] = [];
    const { reload } = create({
      decisions: createDebugLog({ debug: (_, fields) => void lines.push(fields) }),
    });
    await reload({ source: 'directory', directory: folder.path });
    const { reader, table } = services();
    await reader.read(acme, 'request');
    const login = table.find(acme);
    if (login === undefined) throw new TypeError('no keys');
    await reader.look(login, 'shop');
    expect(lines).toMatchObject([acme]);
  });
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
