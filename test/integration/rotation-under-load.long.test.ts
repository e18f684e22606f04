import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Load, type LoadRequest, printNumbers } from '../support/load.ts';
import {
  balanceOf,
  type KeySet,
  secretOf,
  statusOf,
  TestCluster,
  transferOf,
} from '../support/test-cluster.ts';

const processes = 2;
const logins = ['acme', 'control-only', 'private-only'];
/** Milliseconds between the waves of requests: 70 requests per second. */
const every = 200;
/** Milliseconds between the two events of a rotation, and after them: keys are fresh for two seconds. */
const apart = 2_200;
const settled = 1_200;
const rotations = 3;

type KeysOf = Readonly<Record<string, KeySet>>;

describe("while keys are rotated three times in a row, and the RSA key moves to Vault's Transit engine and back,", () => {
  let cluster: TestCluster;
  let load: Load;
  let keys: KeysOf;

  beforeAll(async () => {
    cluster = await new TestCluster({ logins, fresh: '2s' }).open();
    keys = Object.fromEntries(logins.map((login) => [login, cluster.first]));
    await cluster.startProcesses(processes, await cluster.appRole());
    load = new Load(wave, every);
    await wait(1_000);
    for (let nth = 0; nth < rotations; nth += 1) {
      const next = await newKeys(nth);
      const isVaultFirst = nth !== 1;
      if (isVaultFirst) putInVault(next);
      else accept(keys, next);
      await wait(apart);
      if (!isVaultFirst) putInVault(next);
      accept(next);
      keys = next;
      await wait(settled);
    }
    await load.end();
    printNumbers('Rotation', {
      'requests per second': Math.round(load.rate),
      'balances and statuses': load.results(/^(balance|status)/),
      transfers: load.results(/transfer/),
      'slowest response, ms': Math.round(load.slowest),
      'rejected at the gateway': cluster.gateway.seen.count({ rejection: 'signature-wrong' }),
      'Vault reads': cluster.vaultReads,
      'signatures in Vault': cluster.vault.count(/^POST transit\/sign/),
    });
  }, 60_000);
  afterAll(() => cluster.close());

  function wave(): LoadRequest[] {
    return cluster.processes.flatMap((one) => {
      const ofEach = logins.flatMap((login) => [balanceOf(one, login), statusOf(one, login)]);
      return [transferOf(one), ...ofEach];
    });
  }

  /** The keys of each login after a rotation: both are new, or one of them. */
  async function newKeys(nth: number): Promise<KeysOf> {
    const toTransit = keys['acme']?.transitKey === undefined;
    const next = await (toTransit ? cluster.newTransitKeys(`key-${nth}`) : cluster.newKeys());
    return {
      acme: next,
      'control-only': { ...cluster.first, controlKey: next.controlKey },
      'private-only': { ...next, controlKey: cluster.first.controlKey },
    };
  }

  function putInVault(next: KeysOf): void {
    for (const [login, one] of Object.entries(next))
      cluster.vault.put(`gateway/sandbox/${login}`, secretOf(one));
  }

  /** From now on the gateway accepts only these keys. */
  function accept(...all: readonly KeysOf[]): void {
    for (const login of logins) cluster.acceptOnly(login, ...all.flatMap((one) => one[login] ?? []));
  }

  it('no read fails', () => {
    expect(load.results(/^(balance|status)/)).toEqual({ '200 answered': expect.any(Number) });
    expect(load.rate).toBeGreaterThan(60);
  });

  it('each payment is sent once, and is processed, or rejected just after the gateway changed', () => {
    const {
      '200 answered': answered = 0,
      '403 answered': rejected = 0,
      ...others
    } = load.results(/transfer/);
    expect(others).toEqual({});
    expect(cluster.gateway.seen.count({ operation: 'transfer' })).toBe(answered + rejected);
    expect(new Set(cluster.transfers).size).toBe(answered);
    expect(cluster.transfers).toHaveLength(answered);
    const inFlight = processes * (1 + Math.ceil(load.slowest / every));
    expect(rejected).toBeLessThanOrEqual(rotations * inFlight);
  });

  it('Vault signs no more than what is sent, and nothing but signs', async () => {
    const made = await cluster.metric('transit_signature_duration_seconds_count', { result: 'ok' });
    expect(made).toBeGreaterThan(100);
    expect(cluster.vault.count(/^POST transit\/sign/)).toBe(made);
    expect(made).toBeLessThan(cluster.gateway.seen.count());
    expect(cluster.vault.count(/transit\/(export|backup)/)).toBe(0);
  });

  it('no secret leaks', async () => {
    expect(await cluster.leaks(load.seen())).toEqual([]);
  });
});
