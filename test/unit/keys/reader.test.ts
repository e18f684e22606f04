import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../src/errors.ts';
import type { KeyReader } from '../../../src/keys/reader.ts';
import type { KeyTable, Login } from '../../../src/keys/table.ts';
import { settled, type VirtualClock } from '../../support/virtual-clock.ts';
import { acme, newKeys, refOf, ringOf, type ScriptedSource, ttl } from './scripted-source.ts';

let source: ScriptedSource;
let reader: KeyReader;
let table: KeyTable;
let time: VirtualClock;
let told: string[];
beforeEach(() => {
  ({ source, reader, table, time, told } = newKeys());
});
afterEach(() => reader.stop());

const loginOf = (ref = acme): Login => {
  const login = table.peek(ref);
  if (login === undefined) throw new TypeError(`${ref.login} has no keys`);
  return login;
};
const versions = (ref = acme): number[] => table.peek(ref)?.ring.map(({ version }) => version) ?? [];
/** Logins whose reads began since the last call. */
const reads = (): string[] => source.started.splice(0);
const read = (ref = acme, caller?: string): Promise<void> => reader.read(ref, 'request', caller);
/** Logins with keys in the table, used now. */
async function holds(...logins: readonly string[]): Promise<void> {
  for (const login of logins) {
    source.set(refOf(login), 'key');
    await read(refOf(login));
  }
  reads();
}
/** A read that fails; nobody handles that. */
async function failsToRead(ref = acme): Promise<void> {
  await read(ref).catch(() => {});
}

describe('a read', () => {
  it('is one at a time for a login, whatever it is for', async () => {
    source.set(acme, 'key');
    source.paused = true;
    const all = [read(), read(acme, 'shop'), reader.read(acme, 'refresh'), read(refOf('acme', 'production'))];
    expect(reads()).toEqual(['acme', 'acme']);
    await source.release();
    await Promise.all(all);
    expect(versions()).toEqual([1]);
  });

  it('has a slot of its environment and purpose, so that requests take none of those that notice a deleted key', async () => {
    source.paused = true;
    for (let index = 0; index < 40; index += 1) void read(refOf(`invented-${index}`), `caller-${index}`);
    expect(reads()).toHaveLength(16);
    void reader.read(acme, 'refresh');
    void reader.read(refOf('beta'), 'look', 'shop');
    void read(refOf('gamma', 'production'), 'caller-1');
    expect(reads()).toEqual(['acme', 'beta', 'gamma']);
    for (let index = 0; index < 20; index += 1) void reader.read(refOf(`due-${index}`), 'refresh');
    expect(reads()).toHaveLength(7);
  });

  it('of one caller has half of the slots, and those that wait pass them on', async () => {
    source.paused = true;
    for (let index = 0; index < 40; index += 1) void read(refOf(`invented-${index}`), 'attacker');
    expect(reads()).toHaveLength(8);
    void read(acme, 'victim');
    expect(reads()).toEqual(['acme']);
    await source.release();
    expect(reads()).toHaveLength(8);
  });

  it('that finds no room is refused at once, and nothing is started', async () => {
    source.paused = true;
    const started = Array.from({ length: 508 }, (_, index) => read(refOf(`${index}`), 'attacker'));
    await expect(read(acme, 'attacker')).rejects.toThrow(ProxyError);
    await source.release();
    expect(await Promise.race([...started, settled()])).toBeUndefined();
    for (let turn = 0; turn < 64; turn += 1) await source.release();
    expect(reads()).not.toContain('acme');
  });

  it('that fails for an unexpected reason says nothing of it', async () => {
    source.failure = () => {
      throw new TypeError('MARK: a key');
    };
    await expect(read()).rejects.toMatchObject({ reason: 'key-source-unavailable' });
    expect(told).toEqual(['down: unexpected error in the key source: TypeError']);
  });
});

describe('a login in use', () => {
  beforeEach(() => reader.start());

  it('is read again at each ttl, without requests, for ten minutes after its last use', async () => {
    await holds('acme');
    await time.advance(ttl);
    expect(reads()).toEqual(['acme']);
    await time.advance(600_000);
    expect(reads()).toHaveLength(8);
    await time.advance(600_000);
    expect(reads()).toEqual([]);
  });

  it('has keys that were deleted until its next read at most, even while requests take all they can', async () => {
    await holds('acme');
    source.delete(acme);
    source.paused = true;
    for (let index = 0; index < 1_000; index += 1)
      void read(refOf(`invented-${index}`), `caller-${index % 5}`);
    source.paused = false;
    await time.advance(ttl + 500);
    expect(table.find(acme)).toBeUndefined();
    await source.release();
  });

  it('is read again before those that were read later, a hundred of its environment in each half second', async () => {
    const logins = Array.from({ length: 250 }, (_, index) => `login-${index}`);
    for (const login of logins) {
      source.set(refOf(login), 'key');
      await read(refOf(login));
      time.now += 1;
    }
    const elsewhere = refOf('elsewhere', 'production');
    source.set(elsewhere, 'key');
    await read(elsewhere);
    reads();
    time.now = ttl + 250;
    await time.advance(0);
    const first = reads();
    expect(first.filter((login) => login !== 'elsewhere')).toEqual(logins.slice(0, 100));
    expect(first).toContain('elsewhere');
    await time.advance(500);
    expect(reads()).toEqual(logins.slice(100, 200));
  });

  it('that could not be read is read again after 1, 2, 4 s and so on, up to the ttl', async () => {
    await holds('acme');
    source.deny('acme');
    const at: number[] = [];
    for (let second = 0; second < 250; second += 0.5) {
      await time.advance(500);
      if (reads().length > 0) at.push(time.now / 1_000);
    }
    expect(at).toEqual([60, 61, 63, 67, 75, 91, 123, 183, 243]);
    source.heal();
    await time.advance(ttl);
    reads();
    await time.advance(ttl);
    expect(reads()).toEqual(['acme']);
  });

  it('is not read again after the end', async () => {
    await holds('acme');
    reader.stop();
    await time.advance(2 * ttl);
    expect(reads()).toEqual([]);
    expect(time.timers).toBe(0);
  });
});

describe('a look', () => {
  beforeEach(() => holds('acme', 'beta'));

  it('is one a second for a login: the next one waits for its turn, and is shared', async () => {
    await reader.look(loginOf(), 'shop');
    source.set(acme, 'new', 'key');
    const next = reader.look(loginOf(), 'shop');
    expect(reader.look(loginOf(), 'other')).toBe(next);
    await time.advance(999);
    expect(reads()).toEqual(['acme']);
    await time.advance(1);
    await next;
    expect(reads()).toEqual(['acme']);
    expect(versions()).toEqual([2, 1]);
  });

  it('reads again what a read that began before it may have missed', async () => {
    source.paused = true;
    void read();
    void reader.look(loginOf(), 'shop');
    await source.release();
    await source.release();
    expect(reads()).toEqual(['acme', 'acme']);
  });

  it('has a budget of 15 a second for a caller and 30 for an environment', async () => {
    const logins = Array.from({ length: 40 }, (_, index) => `login-${index}`);
    await holds(...logins);
    const look = (login: string, caller: string) => reader.look(loginOf(refOf(login)), caller);
    const began = (some: readonly string[], caller: string): number =>
      some.filter((login) => look(login, caller) !== undefined).length;
    expect(began(logins.slice(0, 20), 'attacker')).toBe(15);
    expect(began(logins.slice(20), 'victim')).toBe(15);
    expect(look('acme', 'third')).toBeUndefined();
    source.set(refOf('acme', 'production'), 'key');
    await read(refOf('acme', 'production'));
    expect(reader.look(loginOf(refOf('acme', 'production')), 'attacker')).toBeDefined();
    await time.advance(1_000);
    expect(began(logins.slice(15, 35), 'attacker')).toBe(15);
  });

  it('never rejects, whether it fails or finds no room', async () => {
    source.deny('acme');
    await expect(reader.look(loginOf(), 'shop')).resolves.toBeUndefined();
    source.paused = true;
    for (let index = 0; index < 54; index += 1) void reader.read(refOf(`${index}`), 'look', 'shop');
    await expect(reader.look(loginOf(refOf('beta')), 'shop')).resolves.toBeUndefined();
    expect(reads()).not.toContain('beta');
    await source.release();
  });

  it('does not happen while the source fails', async () => {
    source.fail();
    await failsToRead(refOf('gamma'));
    reads();
    time.now += 5_000;
    expect(reader.look(loginOf(), 'shop')).toBeUndefined();
    expect(reads()).toEqual([]);
  });
});

describe('a source that fails', () => {
  it('gets one read a second, whoever asks, and the others fail at once', async () => {
    await holds('acme');
    reader.start();
    source.fail();
    time.now = ttl;
    const at: string[] = [];
    for (let now = 0; now < 5_000; now += 100) {
      await time.advance(100);
      await failsToRead(refOf(`invented-${now}`));
      at.push(...reads().map(() => `${(time.now - ttl) / 1_000}`));
    }
    expect(reader.isFailing).toBe(true);
    expect(at).toEqual(['0.1', '1', '2', '3', '4', '5']);
  });

  it('gets one read a second while they hang, too', async () => {
    source.fail();
    await failsToRead();
    source.paused = true;
    reader.start();
    reads();
    for (let now = 0; now < 3_000; now += 100) {
      await failsToRead(refOf(`invented-${now}`));
      await time.advance(100);
    }
    expect(reads()).toHaveLength(3);
    await source.release();
  });

  it('is found to be back without requests, and logins in use are read again', async () => {
    await holds('acme', 'beta', 'gamma');
    reader.start();
    source.fail();
    await time.advance(2 * ttl);
    expect(reader.isFailing).toBe(true);
    reads();
    source.heal();
    await time.advance(1_500);
    expect(reader.isFailing).toBe(false);
    expect(new Set(reads())).toEqual(new Set(['acme', 'beta', 'gamma']));
    expect(table.find(acme) && table.isFresh(loginOf())).toBe(true);
  });

  it('lets a rejected key be replaced at once when it is back', async () => {
    source.set(acme, 'new', 'old');
    await read();
    const choice = table.choiceOf(loginOf(), 'control_key');
    const mayTry = (): boolean =>
      choice.takeStep({ caller: 'shop', endpoint: '7', readOnly: true }, time.now);
    expect([mayTry(), mayTry()]).toEqual([true, false]);
    source.fail();
    await failsToRead();
    source.heal();
    reader.probeNow();
    await settled();
    expect(mayTry()).toBe(true);
  });

  it('is asked for one login after the other, so that one alone that cannot be read stops no other', async () => {
    await holds('acme', 'beta', 'gamma');
    time.now += 120_000;
    source.fail();
    await failsToRead();
    reader.start();
    reads();
    await time.advance(4_600);
    expect(new Set(reads())).toEqual(new Set(['acme', 'beta', 'gamma']));
  });

  it('fails for good only by what it said last: not by a read that hung while others succeeded', async () => {
    source.fail();
    source.paused = true;
    const hung = failsToRead();
    source.heal();
    source.paused = false;
    time.now += 100;
    await holds('beta');
    await source.release();
    await hung;
    expect(reader.isFailing).toBe(false);
  });

  it('is another thing than a login that it responds to, which is told once', async () => {
    source.deny('acme');
    await failsToRead();
    await failsToRead();
    expect(reader.isFailing).toBe(false);
    expect(told).toEqual(['1 denied: no permission (sandbox/acme)', 'acme: key read failed: no permission']);
  });
});

it('the ring that is known is handed to the source', async () => {
  await holds('acme');
  await read();
  expect(source.known).toEqual(ringOf('key'));
});
