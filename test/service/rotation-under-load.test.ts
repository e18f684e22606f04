import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Load, type Shot, tell } from '../support/load.ts';
import { balanceOf, type KeySet, Site, statusOf, transferOf } from '../support/site.ts';

/** Between the two events of a rotation: scaled down, unless the full length is asked for. */
const seconds = Number(process.env['COUNTERSIGN_ROTATION_SECONDS'] ?? 3);
/** Milliseconds between the waves of requests. */
const every = 200;
/** Requests of one operation, login and process in a wave. */
const together = 2;
const processes = 2;
const fresh = 2;
const reads = /^(balance|status)/;

describe('while a key is rotated, under load,', () => {
  let site: Site;
  /** What each login has after the rotation. */
  let next: Readonly<Record<string, KeySet>>;
  let load: Load;

  beforeEach(
    async () => {
      site = await new Site({ logins: ['acme', 'control-only', 'private-only'], fresh: `${fresh}s` }).open();
      const keys = site.newKeys();
      next = {
        acme: keys,
        'control-only': { ...site.first, controlKey: keys.controlKey },
        'private-only': { ...keys, controlKey: site.first.controlKey },
      };
      await site.startProcesses(processes, await site.appRole());
      load = new Load(wave, every);
    },
    (seconds + 20) * 1000,
  );
  afterEach(() => site.close());

  /** Keys that change, in every process that uses them: two of `acme`, one of each of the others. */
  const changes = 4 * processes;

  function wave(): Shot[] {
    return site.processes.flatMap((one) => {
      const ofEach = Object.keys(next).flatMap((login) => [balanceOf(one, login), statusOf(one, login)]);
      return [transferOf(one), ...Array.from({ length: together }, () => ofEach).flat()];
    });
  }

  async function putInVault(): Promise<void> {
    for (const [login, keys] of Object.entries(next)) await site.putInVault(login, keys);
  }

  /** From now on the gateway accepts the next keys, and others as long as it is told to. */
  function giveToGateway(...others: readonly KeySet[]): void {
    for (const [login, keys] of Object.entries(next)) site.acceptOnly(login, keys, ...others);
  }

  async function numbers(title: string) {
    await load.end();
    const all = {
      'requests a second': Math.round(load.rate),
      'balances and statuses': load.results(reads),
      transfers: load.results(/transfer/),
      'slowest answer, ms': Math.round(load.slowest),
      'refused at the gateway': site.gateway.seen.count({ rejection: 'signature-wrong' }),
      'extra gateway requests': site.gateway.seen.count() - load.hits.length,
      'Vault reads': site.vaultReads,
      'fallbacks to older': await site.metric('key_fallbacks_total', { to: 'older' }),
      'fallbacks to newer': await site.metric('key_fallbacks_total', { to: 'newer' }),
    };
    tell(title, all);
    return all;
  }

  /** What can be under way at one moment, or come before the first trial has ended. */
  function mostRefusedAtOnce(): number {
    return changes * together * (1 + Math.ceil(load.slowest / every));
  }

  /** A ring is read from Vault when it was fresh for long enough, and after a refusal; here it is two versions. */
  function mostVaultReads(fallbacks: number): number {
    const refreshes = Math.ceil(load.seconds / (fresh * 0.9)) + 1;
    const looks = Math.ceil(load.seconds / 5) * processes;
    return 2 * (refreshes * Object.keys(next).length * processes + fallbacks + looks);
  }

  function expectAllAnswered(): void {
    expect(load.rate).toBeGreaterThan(50);
    expect(load.results(reads)).toEqual({ '200 answered': expect.any(Number) });
  }

  /** Each transfer reached the gateway once, and was carried out or refused. */
  function expectTransfersSentOnce(): void {
    const { '200 answered': answered = 0, '403 answered': refused = 0, ...others } = load.results(/transfer/);
    expect(others).toEqual({});
    expect(site.gateway.seen.count({ operation: 'transfer' })).toBe(answered + refused);
    expect(new Set(site.transfers).size).toBe(answered);
    expect(site.transfers).toHaveLength(answered);
  }

  it(
    `no request fails when Vault has it ${seconds} s before the gateway`,
    async () => {
      await wait(1000);
      await putInVault();
      await wait(seconds * 1000);
      giveToGateway();
      await wait(1500);
      const seen = await numbers(`Vault first, the gateway ${seconds} s later`);
      expectAllAnswered();
      expectTransfersSentOnce();
      // At each of the two moments: those under way, and a wave that comes while one of them tries.
      expect(seen['extra gateway requests']).toBeLessThanOrEqual(2 * changes * 2 * together);
      expect(seen['fallbacks to older']).toBe(changes);
      expect(seen['fallbacks to newer']).toBe(changes);
      expect(seen['Vault reads']).toBeLessThanOrEqual(mostVaultReads(2 * changes));
      expect(await site.leaks(load.seen())).toEqual([]);
    },
    (seconds + 20) * 1000,
  );

  it(
    `no request fails when the gateway has it ${seconds} s before Vault, and takes both until then`,
    async () => {
      await wait(1000);
      giveToGateway(site.first);
      await wait(seconds * 1000);
      await putInVault();
      giveToGateway();
      await wait(1500);
      const seen = await numbers(`The gateway first, Vault ${seconds} s later`);
      expectAllAnswered();
      expectTransfersSentOnce();
      expect(seen['extra gateway requests']).toBeLessThanOrEqual(mostRefusedAtOnce());
      expect(seen['fallbacks to older']).toBe(0);
      expect(seen['fallbacks to newer']).toBeLessThanOrEqual(changes);
      expect(seen['Vault reads']).toBeLessThanOrEqual(mostVaultReads(changes));
      expect(await site.leaks(load.seen())).toEqual([]);
    },
    (seconds + 20) * 1000,
  );
});
