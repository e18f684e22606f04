import { createSecretKey } from 'node:crypto';
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { KeyRing, UnusableKey, UsableKey } from '../../../src/keys/key-source.ts';
import { createPrometheus, type Prometheus } from '../../../src/observability/prometheus.ts';
import { Secret } from '../../../src/secret.ts';
import { samples, series } from '../../support/exposition.ts';

const address = { environment: 'sandbox', login: 'acme' };
const controlLabels = { ...address, kind: 'control_key' };
const privateLabels = { ...address, kind: 'private_key' };
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
  const environments = { sandbox: { operations: ['order-status'], maxInFlight: 5 } };
  metrics = createPrometheus({ version: '1', environments, callers: [] });
});

async function value(name: string, labels: Readonly<Record<string, string>>): Promise<number | undefined> {
  return samples((await metrics.page(false)).body).get(series(`countersign_key_${name}`, labels));
}

async function keySeries(): Promise<string[]> {
  return [...samples((await metrics.page(false)).body).keys()].filter((name) => name.includes('login='));
}

function use(ring: KeyRing | undefined): void {
  metrics.keyRingUpdated(address, ring);
}

/** @param gatewayStatus none where no response came */
function answered(keyVersion: number, gatewayStatus?: number): void {
  metrics.requestFinished({
    ...address,
    id: 'x',
    startedAt: 0,
    keyVersion,
    keyKind: 'control_key',
    ...(gatewayStatus === undefined ? {} : { gatewayStatus }),
    outcome: 'answered',
    attempts: 1,
    durations: {},
  });
}

describe('a ring in use', () => {
  it('is shown by kind: newest version, version that signs, age', async () => {
    use([control(4), rsa(4), control(3), rsa(2)]);
    expect(await value('version', controlLabels)).toBe(4);
    expect(await value('version', privateLabels)).toBe(4);
    expect(await value('signing_version', controlLabels)).toBe(4);
    expect(await value('created_timestamp_seconds', controlLabels)).toBe(createdAt.getTime() / 1000);
    expect(await value('created_timestamp_seconds', privateLabels)).toBeUndefined();
    expect(await value('fallbacks_total', { ...controlLabels, to: 'older' })).toBe(0);
  });

  it('is shown by the newest version that can be used, and by how many cannot', async () => {
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

  it('leaves no series when the login or one kind of its keys is gone', async () => {
    use([control(4), rsa(4)]);
    use([rsa(5)]);
    expect(await value('version', controlLabels)).toBeUndefined();
    expect(await value('version', privateLabels)).toBe(5);
    use(undefined);
    expect(await keySeries()).toEqual([]);
  });
});

describe('the version that signs', () => {
  it('is the one the gateway accepts while it refuses the newest', async () => {
    use([control(4), control(3)]);
    answered(4, 403);
    expect(await value('signing_version', controlLabels)).toBe(4);
    answered(3, 200);
    use([control(4), control(3)]);
    expect(await value('signing_version', controlLabels)).toBe(3);
    answered(4, 200);
    expect(await value('signing_version', controlLabels)).toBe(4);
  });

  it.each([401, 403, 500, 503, 599, undefined])('is left as it is by a %p', async (status) => {
    use([control(4), control(3)]);
    answered(4, 200);
    answered(3, status);
    expect(await value('signing_version', controlLabels)).toBe(4);
  });

  it('starts anew with a new version', async () => {
    use([control(4), control(3)]);
    answered(3, 200);
    use([control(5), control(4)]);
    expect(await value('signing_version', controlLabels)).toBe(5);
  });
});

it('a fallback is counted for a ring in use and for no other', async () => {
  use([control(4), control(3)]);
  metrics.keyFallback(address, 'control_key', 'older');
  metrics.keyFallback({ ...address, login: 'stranger' }, 'control_key', 'older');
  expect(await value('fallbacks_total', { ...controlLabels, to: 'older' })).toBe(1);
  expect(await keySeries()).not.toContainEqual(expect.stringContaining('stranger'));
});

it('logins beyond the bound are not shown, and have room again when others are gone', async () => {
  for (let at = 0; at < 1200; at += 1)
    metrics.keyRingUpdated({ ...address, login: `m${at}` }, [control(1), rsa(1)]);
  const shown = (await keySeries()).filter((name) => name.startsWith('countersign_key_version'));
  expect(shown).toHaveLength(2000);
  metrics.keyRingUpdated({ ...address, login: 'm0' }, undefined);
  use([control(1), rsa(1)]);
  expect(await value('version', privateLabels)).toBe(1);
});
