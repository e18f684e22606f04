import { rmSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { configSchema, type KeysConfig } from '../../../src/config/schema.ts';
import type { KeyRing } from '../../../src/keys/ring.ts';
import { createDebugLog, type DebugLog } from '../../../src/observability/debug-log.ts';
import { createPrometheus } from '../../../src/observability/prometheus.ts';
import { createTlsPeers } from '../../../src/observability/tls-peers.ts';
import { createKeyServices, type KeyServices, sameKeysConfig } from '../../../src/service/key-services.ts';
import { system } from '../../../src/service/system.ts';
import { Folder } from '../../support/folder.ts';
import { routesOf } from '../../support/routes.ts';
import { testKeys, writeKeys } from '../../support/service.ts';
import { until } from '../../support/until.ts';

const acme = { environment: 'sandbox', login: 'acme' };
const configOf = (keys: object): KeysConfig =>
  configSchema.parse({
    environments: { sandbox: { baseUrl: 'http://127.0.0.1:1', product: 'gw' } },
    keys,
    callers: [{ name: 'local', credentials: [{ anonymous: true }] }],
  }).keys;

let folder: Folder;
let opened: KeyServices[];
let reported: string[];
beforeEach(() => {
  [folder, opened, reported] = [new Folder(), [], []];
  writeKeys(folder.path, 'sandbox', 'acme', testKeys);
});
afterEach(async () => {
  for (const services of opened) await services.stop();
  folder.remove();
});

async function open(directory = folder.path, cache = {}, decisions?: DebugLog): Promise<KeyServices> {
  const metrics = {
    ...createPrometheus({ version: '0', routes: routesOf() }),
    keySourceReplaced: (source: string) => void reported.push(`another ${source}`),
    keySourceUp: (up: boolean, cause?: string) => void reported.push(up ? 'up' : `down: ${cause}`),
    loginsDenied: (logins: number, cause: string) => void reported.push(`${logins} denied: ${cause}`),
    loginsNotFound: () => {},
    loginFailed: (problem: string) => void reported.push(`login: ${problem}`),
    tokenExpiryChanged: (at?: number, lease?: number) => void reported.push(`token: ${at} of ${lease}`),
    keyRingUpdated: ({ login }: { login: string }, ring?: KeyRing, removal?: string) =>
      void reported.push(`${login} ${ring === undefined ? removal : 'read'}`),
  };
  const { clock, monotonic, random } = system;
  const log = { message() {}, handshakeFailed() {} };
  const tlsPeers = createTlsPeers({ log, metrics, monotonic });
  const shared = { clock, monotonic, random, metrics, decisions, tlsPeers };
  const services = await createKeyServices(configOf({ source: 'directory', directory, cache }), {}, shared);
  opened.push(services);
  return services;
}

/** With `acme` in use. */
async function openInUse(): Promise<KeyServices> {
  const services = await open();
  services.begin();
  await services.reader.read(acme, 'request');
  const login = services.table.find(acme);
  if (login === undefined) throw new TypeError('no keys');
  services.table.use(login);
  return services;
}

describe('another source', () => {
  let other: Folder;
  beforeEach(() => {
    other = new Folder();
  });
  afterEach(() => other.remove());

  it('has the logins in use in memory, with their own keys, before it is used', async () => {
    const before = await openInUse();
    writeKeys(other.path, 'sandbox', 'acme', { controlKey: 'of the other one' });
    const next = await open(other.path);
    await next.readInUse(before, ['sandbox']);
    // Nothing of the place before, which may be left because its keys became known.
    expect(next.table.find(acme)?.ring).toHaveLength(1);
    expect(before.table.find(acme)?.ring).toHaveLength(2);
  });

  it('need not have the logins of an environment that is not configured any more', async () => {
    const before = await openInUse();
    await (await open(other.path)).readInUse(before, []);
  });
});

it('a source reports while it is in use: also what was before, but nothing afterwards', async () => {
  const before = await openInUse();
  expect(reported.splice(0)).toEqual(['acme read', 'up']);
  const next = await open();
  await next.readInUse(before, ['sandbox']);
  expect(reported).toEqual([]);
  next.begin(before);
  expect(reported.splice(0)).toEqual(['acme replaced', 'another directory', 'up', 'acme read']);
  rmSync(folder.path, { recursive: true });
  await before.reader.read(acme, 'request').catch(() => {});
  expect(reported).toEqual([]);
});

it('a login in use is read again without a request when the ttl is over', async () => {
  const { reader, table } = await open(folder.path, { ttl: '1s' });
  await reader.read(acme, 'request');
  writeKeys(folder.path, 'sandbox', 'acme', { ...testKeys, controlKey: 'another one' });
  await until(() => table.peek(acme)?.ring.length === 3, 'the new key is read', 10);
});

it('the debug log has a look after a rejection', async () => {
  const lines: object[] = [];
  const decisions = createDebugLog({ debug: (_, fields) => void lines.push(fields) });
  const { reader, table } = await open(folder.path, {}, decisions);
  await reader.read(acme, 'request');
  const login = table.find(acme);
  if (login === undefined) throw new TypeError('no keys');
  await reader.look(login, 'shop');
  expect(lines).toMatchObject([acme]);
});

const vault = { address: 'https://127.0.0.1:9', auth: { method: 'token', token: 'first' } };
const egressProxy = { url: 'http://127.0.0.1:9', username: 'shop', password: 'first' };

it.each<[string, object, object]>([
  ['address', {}, { address: 'https://127.0.0.2:9' }],
  ['mounts of Transit', {}, { transit: { mounts: { sandbox: 'transit' } } }],
  ['token', {}, { auth: { method: 'token', token: 'second' } }],
  ['password of the egress proxy', { egressProxy }, { egressProxy: { ...egressProxy, password: 'x' } }],
])('keys are configured in another way with another %s', (_field, before, after) => {
  const first = () => configOf({ source: 'vault', vault: { ...vault, ...before } });
  expect(sameKeysConfig(first(), first())).toBe(true);
  expect(sameKeysConfig(first(), configOf({ source: 'vault', vault: { ...vault, ...after } }))).toBe(false);
});
