import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { configSchema } from '../../../src/config/schema.ts';
import { createDebugLog } from '../../../src/observability/debug-log.ts';
import { createPrometheus } from '../../../src/observability/prometheus.ts';
import { createKeyServices, type KeyServices } from '../../../src/server/key-services.ts';
import { system } from '../../../src/server/system.ts';
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

describe('a login whose keys were read again after a 403', () => {
  let folder: Folder;
  beforeEach(() => {
    folder = new Folder();
  });
  afterEach(() => folder.remove());
  const login = { environment: 'sandbox', login: 'acme' };

  /** How often keys were read again, after as many payments were rejected. */
  function createRejected() {
    const [looked, time] = [[] as object[], { now: 0 }];
    const decisions = createDebugLog({ debug: (_, fields) => void looked.push(fields) });
    const { reload } = create({ decisions, monotonic: () => time.now });
    const rejected = async (): Promise<number> => {
      const selector = inUse?.keySelector;
      const keys = await selector?.keysOf(login, 'control_key');
      time.now += 1;
      keys?.recordRejected({ key: keys.select(), operation: 'transfer', sentAt: time.now }, 'rejected');
      await until(() => selector?.looks.recent(login)?.endedAt !== undefined);
      return looked.length;
    };
    return { reload, rejected };
  }

  it('is read again at once after a reload, even one that changes nothing', async () => {
    writeKeys(folder.path, 'sandbox', 'acme', testKeys);
    const { reload, rejected } = createRejected();
    const source = { source: 'directory', directory: folder.path };
    await reload(source);
    expect([await rejected(), await rejected()]).toEqual([1, 1]);
    await reload(source);
    expect([await rejected(), await rejected()]).toEqual([2, 2]);
    await reload({ ...source, cache: { ttl: '5s' } });
    expect([await rejected(), await rejected()]).toEqual([3, 3]);
  });

  it('is read again at once when a source that was unavailable responds again', async () => {
    writeKeys(folder.path, 'sandbox', 'acme', testKeys);
    const { reload, rejected } = createRejected();
    await reload({ source: 'directory', directory: folder.path });
    expect([await rejected(), await rejected()]).toEqual([1, 1]);
    folder.remove();
    await inUse?.cache.look(login);
    expect(inUse?.cache.isFailing()).toBe(true);
    writeKeys(folder.path, 'sandbox', 'acme', testKeys);
    await inUse?.cache.look(login);
    expect(inUse?.cache.isFailing()).toBe(false);
    expect([await rejected(), await rejected()]).toEqual([2, 2]);
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
