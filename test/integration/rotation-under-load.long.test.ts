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

/** Seconds between the two events of a rotation: scaled down, unless the full length is requested. */
const seconds = Number(process.env['COUNTERSIGN_ROTATION_SECONDS'] ?? 2.2);
const processes = 2;
/** Requests per second in all; `COUNTERSIGN_ROTATION_RATE=200` if the machine is idle. */
const rate = Number(process.env['COUNTERSIGN_ROTATION_RATE'] ?? 70);
const logins = ['acme', 'control-only', 'private-only'];
/** One transfer, and a balance and a status query of each login, per process. */
const waveSize = processes * (1 + 2 * logins.length);
/** Milliseconds between the waves of requests. */
const every = (1_000 * waveSize) / rate;
const fresh = 2;
/** Seconds of the Vault outage, and until a process has the key after it: 2 s for the recovery, 1 s for the key. */
const [outage, step] = [2.5, 3];
/** Milliseconds after which everything that was in flight at a switch has ended. */
const settled = 1_200;
const reads = /^(balance|status)/;
/** Keys that change in a rotation, over all processes: two of `acme`, one of each of the others. */
const changes = 4 * processes;

type KeysOf = Readonly<Record<string, KeySet>>;

interface Switch {
  readonly title: string;
  /** Milliseconds since 1970: when the gateway dropped the old keys, and when it did so again. */
  readonly at: number;
  endedAt: number;
}

/** A line of the log about a transfer or a status query of `acme`. */
interface Line {
  readonly operation: string;
  readonly rejection: unknown;
  readonly status: unknown;
  readonly process: number;
  readonly startedAt: number;
  readonly endedAt: number;
}

describe.each(['stays in the secrets', "moves to Vault's Transit engine and back"])(
  'while keys are rotated three times in a row, and the RSA key %s,',
  (where) => {
    const moves = where !== 'stays in the secrets';
    let cluster: TestCluster;
    let load: Load;
    let keys: KeysOf;
    let lines: readonly Line[];
    const switches: Switch[] = [];

    beforeAll(
      async () => {
        cluster = await new TestCluster({ logins, fresh: `${fresh}s`, vaultTimeout: '1s' }).open();
        keys = Object.fromEntries(logins.map((login) => [login, cluster.first]));
        await cluster.startProcesses(processes, await cluster.appRole());
        load = new Load(wave, every);
        await wait(1_000);
        await rotate('Vault first', async (next) => {
          putInVault(next);
          await wait(seconds * 1_000);
        });
        await rotate('the gateway first', async (next) => {
          accept(keys, next);
          await wait(seconds * 1_000);
          putInVault(next);
        });
        await rotate('right after an outage of Vault', async (next) => {
          cluster.vault.fail({ kind: 'black-hole' });
          await wait(outage * 500);
          putInVault(next);
          await wait(outage * 500);
          cluster.vault.heal();
          await wait(step * 1_000);
        });
        await load.end();
        lines = cluster.processes.flatMap((one, index) =>
          one.logLines().flatMap((line) => lineOf(line, index)),
        );
        printNumbers(`Rotation, the RSA key ${where}`, await table());
      },
      (2 * seconds + 60) * 1_000,
    );
    afterAll(() => cluster.close());

    function wave(): LoadRequest[] {
      return cluster.processes.flatMap((one) => {
        const ofEach = logins.flatMap((login) => [balanceOf(one, login), statusOf(one, login)]);
        return [transferOf(one), ...ofEach];
      });
    }

    /** The keys of each login after a rotation: both are new, or one of them. */
    async function newKeys(): Promise<KeysOf> {
      const toTransit = moves && keys['acme']?.transitKey === undefined;
      const next = await (toTransit ? cluster.newTransitKeys(`key-${switches.length}`) : cluster.newKeys());
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

    /** @param prepare puts the next keys in Vault; then the gateway drops the old ones */
    async function rotate(title: string, prepare: (next: KeysOf) => Promise<void>): Promise<void> {
      const next = await newKeys();
      await prepare(next);
      accept(next);
      keys = next;
      const at = Date.now();
      await wait(settled);
      const last = switches.at(-1);
      if (last !== undefined) last.endedAt = at;
      switches.push({ title, at, endedAt: Number.POSITIVE_INFINITY });
    }

    const signatures = (): number => cluster.vault.count(/^POST transit\/sign/);

    const rejectedPayments = ({ at, endedAt }: Switch): Line[] =>
      lines.filter(
        ({ operation, status, endedAt: end }) =>
          operation === 'transfer' && status === 403 && end >= at && end < endedAt,
      );

    /** When a process logged that the gateway accepts another RSA key for `acme`, which it knew before. */
    const firstAcceptance = ({ at, endedAt }: Switch, process: number): number =>
      Math.min(
        ...lines
          .filter((line) => line.process === process && line.rejection === 'other-key')
          .map(({ endedAt: end }) => end)
          .filter((end) => end >= at && end < endedAt),
      );

    async function table(): Promise<Record<string, unknown>> {
      const rejected = switches.map((one) => [
        `payments rejected: ${one.title}`,
        rejectedPayments(one).length,
      ]);
      return {
        'requests per second': Math.round(load.rate),
        'balances and statuses': load.results(reads),
        transfers: load.results(/transfer/),
        ...Object.fromEntries(rejected),
        'slowest response, ms': Math.round(load.slowest),
        'rejected at the gateway': cluster.gateway.seen.count({ rejection: 'signature-wrong' }),
        'Vault reads': cluster.vaultReads,
        'signatures in Vault': signatures(),
        'fallbacks to older': await cluster.metric('key_fallbacks_total', { to: 'older' }),
        'fallbacks to newer': await cluster.metric('key_fallbacks_total', { to: 'newer' }),
      };
    }

    it(`no read fails, at ${rate} requests per second`, () => {
      expect(load.results(reads)).toEqual({ '200 answered': expect.any(Number) });
      expect(load.rate).toBeGreaterThan(0.95 * rate);
    });

    it('each payment is sent once, and is processed or rejected', () => {
      const {
        '200 answered': answered = 0,
        '403 answered': rejected = 0,
        ...others
      } = load.results(/transfer/);
      expect(others).toEqual({});
      expect(cluster.gateway.seen.count({ operation: 'transfer' })).toBe(answered + rejected);
      expect(new Set(cluster.transfers).size).toBe(answered);
      expect(cluster.transfers).toHaveLength(answered);
      expect(switches.flatMap(rejectedPayments)).toHaveLength(rejected);
    });

    it('no payment is rejected that began after its process knew that the gateway accepts the next key', () => {
      for (const one of switches) {
        for (const { process, startedAt } of rejectedPayments(one)) {
          expect(startedAt).toBeLessThanOrEqual(firstAcceptance(one, process));
        }
      }
    });

    it('the gateway and Vault get no more requests than needed', async () => {
      const extra = cluster.gateway.seen.count() - load.hits.length;
      // Requests in flight when a key gets to Vault and when the gateway drops one, and the trials.
      const atOnce = changes * (1 + Math.ceil(load.slowest / every));
      expect(extra).toBeLessThanOrEqual(2 * switches.length * atOnce);
      // Each read of a login goes through all of its versions, as all were replaced within the grace period: four at last.
      const refreshes = Math.ceil(load.seconds / (fresh * 0.9)) + 1;
      const retries = switches.length * 2 * processes * logins.length;
      expect(cluster.vaultReads).toBeLessThanOrEqual(4 * (refreshes * logins.length * processes + retries));
    });

    if (moves) {
      it('Vault signs no more than what is sent, and nothing but signs', async () => {
        const made = await cluster.metric('transit_signature_duration_seconds_count', { result: 'ok' });
        expect(made).toBeGreaterThan(100);
        expect(signatures()).toBe(made);
        expect(made).toBeLessThan(cluster.gateway.seen.count());
        expect(cluster.vault.count(/transit\/(export|backup)/)).toBe(0);
      });
    }

    it('no secret leaks', async () => {
      expect(await cluster.leaks(load.seen())).toEqual([]);
    });
  },
);

/** Of requests that are signed with the RSA key of `acme`. */
function lineOf(line: Record<string, unknown>, process: number): Line[] {
  const { operation, login, rejection, status, time, totalMs } = line;
  if (login !== 'acme' || (operation !== 'transfer' && operation !== 'order-status')) return [];
  const endedAt = Date.parse(String(time));
  return [{ operation, rejection, status, process, endedAt, startedAt: endedAt - Number(totalMs) }];
}
