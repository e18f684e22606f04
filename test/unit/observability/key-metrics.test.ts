import { createSecretKey } from 'node:crypto';
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { KeyRing, UnusableKey, UsableKey } from '../../../src/keys/ring.ts';
import { createPrometheus, type Prometheus } from '../../../src/observability/prometheus.ts';
import { Secret } from '../../../src/secret.ts';
import { samples, series } from '../../support/exposition.ts';
import { noReadings, routesOf } from '../../support/routes.ts';

const login = { environment: 'sandbox', login: 'acme' };
const controlLabels = { ...login, kind: 'control_key' };
const privateLabels = { ...login, kind: 'private_key' };
const createdAt = new Date('2026-01-02T03:04:05Z');

const control = (version: number): UsableKey => ({
  kind: 'control_key',
  version,
  createdAt,
  key: { kind: 'control_key', secret: new Secret('x') },
});
const rsa = (version: number): UsableKey => ({
  kind: 'private_key',
  version,
  key: { kind: 'private_key', privateKey: createSecretKey(Buffer.from('x')) },
});
const broken: UnusableKey = { kind: 'control_key', version: 9, problem: 'is empty' };

let metrics: Prometheus;

beforeEach(() => {
  metrics = createPrometheus({ version: '1', routes: routesOf() });
});

async function value(name: string, labels: Readonly<Record<string, string>>): Promise<number | undefined> {
  return samples((await metrics.page(false, noReadings)).body).get(series(`countersign_key_${name}`, labels));
}

async function keySeries(): Promise<string[]> {
  return [...samples((await metrics.page(false, noReadings)).body).keys()].filter(
    (name) => name.startsWith('countersign_key_') && name.includes('login='),
  );
}

function use(ring: KeyRing | undefined): void {
  metrics.keyRingUpdated(login, ring);
}

describe('a ring in use', () => {
  it('is shown by kind: latest version, signing version, age', async () => {
    use([control(4), rsa(4), control(3), rsa(2)]);
    expect(await value('version', controlLabels)).toBe(4);
    expect(await value('version', privateLabels)).toBe(4);
    expect(await value('signing_version', controlLabels)).toBe(4);
    expect(await value('created_timestamp_seconds', controlLabels)).toBe(createdAt.getTime() / 1000);
    expect(await value('created_timestamp_seconds', privateLabels)).toBeUndefined();
    expect(await value('fallbacks_total', { ...controlLabels, to: 'older' })).toBe(0);
  });

  it('is shown by the latest usable version and the number of unusable ones', async () => {
    use([broken, control(3)]);
    expect(await value('version', controlLabels)).toBe(3);
    expect(await value('unusable_versions', controlLabels)).toBe(1);
    use([broken]);
    expect(await value('version', controlLabels)).toBeUndefined();
    expect(await value('unusable_versions', controlLabels)).toBe(1);
  });

  it('is not shown as unusable for a bad version that a newer one replaced', async () => {
    use([control(10), { ...broken, supersededAt: new Date() }, control(8)]);
    expect(await value('unusable_versions', controlLabels)).toBe(0);
  });

  it('leaves no series after the login or one kind of its keys was removed', async () => {
    use([control(4), rsa(4)]);
    use([rsa(5)]);
    expect(await value('version', controlLabels)).toBeUndefined();
    expect(await value('version', privateLabels)).toBe(5);
    use(undefined);
    expect(await keySeries()).toEqual([]);
  });
});

describe('the signing version', () => {
  it('is that of the current key, which signs while a newer one waits', async () => {
    use([control(3)]);
    use([control(4), control(3)]);
    expect(await value('signing_version', controlLabels)).toBe(3);
    metrics.currentKeyChanged(login, 'control_key', 3, 4);
    expect(await value('signing_version', controlLabels)).toBe(4);
  });

  it('is the latest if its key may no longer be used', async () => {
    use([control(4), control(3)]);
    metrics.currentKeyChanged(login, 'control_key', 4, 3);
    use([control(5), control(4)]);
    expect(await value('signing_version', controlLabels)).toBe(5);
  });
});

it('the version that the gateway accepted last is absent until then, and after the login was removed', async () => {
  use([control(4), control(3)]);
  expect(await value('accepted_version', controlLabels)).toBeUndefined();
  metrics.keyAccepted(login, 'control_key', 3);
  metrics.keyAccepted({ ...login, login: 'stranger' }, 'control_key', 3);
  expect(await value('accepted_version', controlLabels)).toBe(3);
  use(undefined);
  expect(await keySeries()).toEqual([]);
});

it('a change of the current key is counted for a ring in use and for no other', async () => {
  use([control(4), control(3)]);
  metrics.currentKeyChanged(login, 'control_key', 4, 3);
  metrics.currentKeyChanged({ ...login, login: 'stranger' }, 'control_key', 4, 3);
  expect(await value('fallbacks_total', { ...controlLabels, to: 'older' })).toBe(1);
  expect(await value('fallbacks_total', { ...controlLabels, to: 'newer' })).toBe(0);
  expect(await keySeries()).not.toContainEqual(expect.stringContaining('stranger'));
});

it('logins beyond the limit are not shown until others are removed', async () => {
  for (let at = 0; at < 1200; at += 1)
    metrics.keyRingUpdated({ ...login, login: `m${at}` }, [control(1), rsa(1)]);
  const shown = (await keySeries()).filter((name) => name.startsWith('countersign_key_version'));
  expect(shown).toHaveLength(2000);
  metrics.keyRingUpdated({ ...login, login: 'm0' }, undefined);
  use([control(1), rsa(1)]);
  expect(await value('version', privateLabels)).toBe(1);
});
