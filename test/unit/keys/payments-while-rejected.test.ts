import { beforeEach, describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../src/errors.ts';
import { parseKeys } from '../../../src/keys/key.ts';
import type { LoginKeys, PaymentKey } from '../../../src/keys/key-selector.ts';
import { KeySelector } from '../../../src/keys/key-selector.ts';
import type { KeyRing } from '../../../src/keys/ring.ts';
import { reveal } from '../../../src/secret.ts';
import { ManualClock } from '../../support/stub-vault/clock.ts';

const acme = { environment: 'sandbox', login: 'acme' };

let clock: ManualClock;
/** Control keys in the cache and in the source, newest first. */
let cached: string[];
let inSource: string[];
/** Resolves when the source responds to a look. */
let sourceResponds: Promise<unknown>;
let looks: number;
let kept: string[];
let selector: KeySelector;

beforeEach(() => {
  clock = new ManualClock();
  [cached, inSource, sourceResponds] = [['old'], ['old'], Promise.resolve()];
  [looks, kept] = [0, []];
  selector = new KeySelector({
    keys: {
      get: async () => ringOf(cached),
      cached: () => ringOf(cached),
      isFailing: () => false,
      keep: (_login, key) => void kept.push(textOf({ key })),
      look: async () => {
        looks += 1;
        await sourceResponds;
        cached = inSource;
        return ringOf(cached);
      },
    },
    metrics: { keyFallback: () => {}, keyProblem: () => {} },
    clock: () => 1e12,
    monotonic: clock.now,
    setTimer: clock.setTimer,
    rotationGracePeriod: 86_400_000,
  });
});

function ringOf(controlKeys: readonly string[]): KeyRing {
  return controlKeys.flatMap((controlKey, index) => {
    const superseded = index === 0 ? {} : { supersededAt: new Date(1e12) };
    return parseKeys({ control_key: controlKey }, { version: controlKeys.length - index, ...superseded });
  });
}

async function pass(milliseconds: number): Promise<void> {
  await settled();
  clock.advance(milliseconds);
  await settled();
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const textOf = ({ key: { key } }: Pick<PaymentKey, 'key'>): string =>
  key.kind === 'control_key' ? reveal(key.secret) : '';

/** @param place of the caller */
const select = async (place = 'here'): Promise<PaymentKey> =>
  (await keys()).selectForPayment({ operation: 'payment', place });

const keys = (): Promise<LoginKeys> => selector.keysOf(acme, 'control_key');

/** The key of the next payment, which gets no clear response, or why it is not sent. */
async function pay(place?: string): Promise<string> {
  try {
    const choice = await select(place);
    choice.probe?.end();
    return choice.probe === undefined ? textOf(choice) : `probe ${textOf(choice)}`;
  } catch (error) {
    if (!(error instanceof ProxyError)) throw error;
    expect(error).toMatchObject({ status: 503, outcome: 'not-sent' });
    return `${error.reason}, ${error.headers['Retry-After']} s`;
  }
}

/** As {@link pay}, but what is sent with a rejected key is rejected. */
async function payAndBeRejected(place = 'here'): Promise<string> {
  const choice = await select(place).catch(() => undefined);
  if (choice?.probe === undefined) return choice === undefined ? 'not sent' : textOf(choice);
  (await keys()).recordRejected({ ...choice, operation: 'payment', sentAt: clock.now() }, 'rejected', place);
  choice.probe.end();
  return `probe ${textOf(choice)}`;
}

async function respond(status: 200 | 403, place = 'here'): Promise<void> {
  const choice = await select(place);
  const use = { ...choice, operation: 'payment', sentAt: clock.now() };
  await pass(1);
  if (status === 200) (await keys()).recordAccepted(use);
  else (await keys()).recordRejected(use, 'rejected', place);
  choice.probe?.end();
  await pass(1);
}

describe('payments after one that was rejected', () => {
  beforeEach(async () => {
    await respond(200);
    await respond(403);
    await pass(1_000);
  });

  it('are sent, unless that happens again: the 403 may be about that payment', async () => {
    for (let turn = 0; turn < 10; turn += 1) expect(await pay()).toBe('probe old');
    await respond(403);
    expect(await pay()).toBe('key-rejected, 4 s');
  });

  it('are sent one after the other, however many come at once', async () => {
    const sent: PaymentKey[] = [];
    const all = [select(), select(), select()].map((one) => one.then((choice) => void sent.push(choice)));
    await pass(100);
    expect(sent).toHaveLength(1);
    const [probe] = sent;
    if (probe === undefined) throw new Error('none was sent');
    const use = { ...probe, operation: 'payment', sentAt: clock.now() };
    (await keys()).recordRejected(use, 'rejected', 'here');
    probe.probe?.end();
    const results = await Promise.allSettled(all);
    expect(results.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected', 'rejected']);
  });

  it('wait for the next one, and are sent if it is accepted', async () => {
    const probe = await select();
    const waiting = Promise.all([pay(), pay()]);
    await pass(500);
    (await keys()).recordAccepted({ ...probe, operation: 'payment', sentAt: clock.now() });
    probe.probe?.end();
    expect(await waiting).toEqual(['old', 'old']);
  });

  it('wait for the next one, and are not sent if it is rejected', async () => {
    const probe = await select();
    const use = { ...probe, operation: 'payment', sentAt: clock.now() };
    const waiting = Promise.all([pay(), pay()]);
    await pass(500);
    (await keys()).recordRejected(use, 'rejected', 'here');
    probe.probe?.end();
    expect(await waiting).toEqual(['key-rejected, 4 s', 'key-rejected, 4 s']);
  });

  it('are sent one after the other while their responses are unclear', async () => {
    const probe = await select();
    const sent: PaymentKey[] = [];
    const all = [select(), select()].map((one) => one.then((choice) => void sent.push(choice)));
    probe.probe?.end();
    await pass(100);
    expect(sent).toHaveLength(1);
    sent[0]?.probe?.end();
    await Promise.all(all);
  });

  it('are sent one after the other, also if the end of an earlier one is reported again', async () => {
    const earlier = await select();
    earlier.probe?.end();
    const probe = await select();
    earlier.probe?.end();
    const waiting = select();
    expect(await Promise.race([waiting, pass(100)])).toBeUndefined();
    probe.probe?.end();
    expect((await waiting).probe).toBeDefined();
  });

  it('are not sent if too many wait for the next one', async () => {
    await select();
    const [now, place] = [clock.now(), 'here'];
    const impatient = (await keys()).selectForPayment(
      { operation: 'payment', place },
      { deadline: now + 30_000, maxWaiting: 0 },
    );
    await expect(impatient).rejects.toMatchObject({
      reason: 'overloaded',
      outcome: 'not-sent',
      detail: 'Too many requests wait for the keys of login "acme" in environment "sandbox". Retry later.',
      headers: { 'Retry-After': '1' },
    });
  });

  it('are not sent if their keys are deleted meanwhile', async () => {
    const probe = await select();
    const waiting = select();
    await pass(500);
    [cached, inSource] = [[], []];
    probe.probe?.end();
    await expect(waiting).rejects.toMatchObject({ reason: 'key-missing' });
  });

  it('are not sent if a look finds their keys deleted', async () => {
    inSource = [];
    await expect(select()).rejects.toMatchObject({ reason: 'key-missing' });
  });

  it('wait for one second in all, for a look and then for the next one', async () => {
    await pass(1_000);
    sourceResponds = new Promise(() => {});
    const ofLogin = await keys();
    const patience = { deadline: clock.now() + 30_000, maxWaiting: 10 };
    const first = ofLogin.selectForPayment({ operation: 'payment', place: 'here' }, patience);
    await pass(1_000);
    await first;
    const again = ofLogin.selectForPayment({ operation: 'payment', place: 'here' }, patience);
    await pass(0);
    expect((await again).probe).toBeDefined();
  });

  it('wait for the next one for one second at most, and are sent', async () => {
    const probe = await select();
    const waiting = Promise.all([pay(), pay()]);
    await pass(1_000);
    expect(await waiting).toEqual(['probe old', 'probe old']);
    const next = pay();
    probe.probe?.end();
    expect(await next).toBe('probe old');
  });

  it('that were sent before its 403 was received are not counted', async () => {
    await respond(200);
    const [first, second] = [await select(), await select()];
    const use = { key: first.key, operation: 'payment', sentAt: clock.now() };
    await pass(10);
    (await keys()).recordRejected(use, 'rejected', 'here');
    await pass(10);
    (await keys()).recordRejected({ ...use, key: second.key }, 'rejected', 'here');
    await pass(1_000);
    expect(await pay()).toBe('probe old');
    expect(await pay()).toBe('probe old');
  });
});

describe('payments after two in a row that were rejected', () => {
  beforeEach(async () => {
    await respond(200);
    await respond(403);
    await pass(1_000);
    await respond(403);
    await pass(2_000);
  });

  it('are not sent, but for one per step', async () => {
    expect(await payAndBeRejected()).toBe('probe old');
    const sent: string[] = [];
    for (let second = 1; second <= 40; second += 1) {
      await pass(1_000);
      if ((await payAndBeRejected()) === 'probe old') sent.push(String(second));
    }
    expect(sent).toEqual(['4', '12', '28']);
    await pass(1_000);
    expect(await pay()).toBe('key-rejected, 27 s');
  });

  it('are sent again once the probe is accepted', async () => {
    await respond(200);
    expect(await pay()).toBe('old');
    expect(await pay()).toBe('old');
  });

  it('are sent again once any other request is accepted', async () => {
    expect(await pay()).toBe('probe old');
    const [key] = ringOf(['old']);
    if (key === undefined || !('key' in key)) throw new Error('no key');
    (await keys()).recordAccepted({ key, operation: 'read', sentAt: clock.now() });
    expect(await pay()).toBe('old');
  });

  it('are signed with a new key as soon as the source has it', async () => {
    expect(await pay()).toBe('probe old');
    await pass(120_000);
    inSource = ['new', 'old'];
    expect(await pay()).toBe('new');
  });

  it('look for one once a second, though none is sent', async () => {
    await pay();
    await pass(1_000);
    const before = looks;
    for (let turn = 0; turn < 100; turn += 1) {
      await pay();
      await pass(100);
    }
    expect(looks - before).toBe(10);
  });

  it('wait for the probe in flight, and are sent if it is accepted', async () => {
    const probe = await select();
    const waiting = pay();
    await pass(500);
    (await keys()).recordAccepted({ ...probe, operation: 'payment', sentAt: clock.now() });
    probe.probe?.end();
    expect(await waiting).toBe('old');
  });

  it('wait for the probe in flight for one second at most', async () => {
    await select();
    const waiting = pay();
    await pass(1_000);
    expect(await waiting).toMatch(/^key-rejected/);
  });

  it('wait for a source that hangs for one second at most', async () => {
    await pass(1_000);
    sourceResponds = new Promise(() => {});
    const waiting = pay();
    await pass(1_000);
    expect(await waiting).toBe('probe old');
  });

  it('can be sent at once after a reload or the return of the source', async () => {
    expect(await payAndBeRejected()).toBe('probe old');
    expect(await pay()).toBe('key-rejected, 7 s');
    selector.lookAgain();
    expect(await pay()).toBe('probe old');
  });
});

describe('a probe', () => {
  it('stays with its key while others are rejected too, unless there is one that is not', async () => {
    cached = inSource = ['new', 'old'];
    for (let turn = 0; turn < 3; turn += 1) await respond(403);
    await pass(2_000);
    const probe = await select();
    const ofLogin = await keys();
    expect(ofLogin.isOutdated(probe, 'here')).toBe(false);
    await respond(403, 'elsewhere');
    await respond(403, 'elsewhere');
    expect(ofLogin.isOutdated(probe, 'here')).toBe(false);
    cached = inSource = ['newest', 'new', 'old'];
    await keys();
    expect(ofLogin.isOutdated(probe, 'here')).toBe(true);
  });

  it('of which nothing is learned uses up no step', async () => {
    await respond(200);
    for (let turn = 0; turn < 2; turn += 1) {
      await respond(403);
      await pass(1_000);
    }
    await pass(1_000);
    expect([await pay(), await pay()]).toEqual(['probe old', 'probe old']);
  });
});

describe('payments with several keys, all of them rejected', () => {
  it('are not sent, but for one per step, with each key in turn', async () => {
    cached = inSource = ['new', 'old'];
    // Once with each of them, and once more.
    await respond(403);
    await respond(403);
    await pass(1_000);
    await respond(403);
    await pass(2_000);
    const sent: string[] = [];
    for (let second = 0; second <= 40; second += 1) {
      const text = await payAndBeRejected();
      if (text.startsWith('probe')) sent.push(`${second} s: ${text}`);
      await pass(1_000);
    }
    expect(sent).toEqual(['0 s: probe old', '4 s: probe new', '12 s: probe old', '28 s: probe new']);
  });
});

describe('payments of another place', () => {
  it('are sent: what the gateway rejects for one caller or path, it may accept for others', async () => {
    await respond(200);
    for (let turn = 0; turn < 100; turn += 1) {
      if ((await pay('shut out')) === 'probe old' || turn === 0)
        await respond(403, 'shut out').catch(() => {});
      expect(await pay()).toBe('old');
      if (turn % 10 === 0) await respond(200);
      await pass(100);
    }
  });

  it('have other steps', async () => {
    for (const place of ['one', 'other', 'one', 'other']) {
      await respond(403, place);
      await pass(1_000);
    }
    await pass(2_000);
    expect([await payAndBeRejected('one'), await pay('other')]).toEqual(['probe old', 'probe old']);
    expect(await pay('one')).toMatch(/^key-rejected/);
    expect(await pay('other')).toBe('probe old');
  });

  it('stay on the accepted key, unless those of two places in a row are rejected with it', async () => {
    cached = inSource = ['new', 'old'];
    const [, old] = ringOf(cached);
    if (old === undefined || !('key' in old)) throw new Error('no key');
    const accept = async () =>
      (await keys()).recordAccepted({ key: old, operation: 'payment', sentAt: clock.now() });
    await accept();
    await respond(403, 'bad');
    expect([await pay('bad'), await pay('good')]).toEqual(['new', 'old']);
    await accept();
    expect(await pay('bad')).toBe('old');
    await respond(403, 'bad');
    await respond(403, 'bad');
    expect(await pay('another')).toBe('old');
    await respond(403, 'good');
    expect(await pay('another')).toBe('new');
  });

  it('are held back together with others where the gateway rejects those of a hundred places', async () => {
    for (const round of [1, 2]) {
      for (let index = 0; index < 150; index += 1) await respond(403, `place ${index}`).catch(() => round);
    }
    await pass(1);
    expect(await pay('place 0')).toMatch(/^key-rejected/);
    expect(await pay('place 149')).toMatch(/^key-rejected/);
    expect(await pay('place 1000')).toMatch(/^key-rejected/);
    await pass(60_000);
    await respond(200, 'place 0');
    expect(await pay('place 1000')).toBe('old');
  });
});

it('queries that are rejected hold no payment back', async () => {
  await respond(200);
  const [key] = ringOf(['old']);
  if (key === undefined || !('key' in key)) throw new Error('no key');
  for (let turn = 0; turn < 20; turn += 1) {
    const use = { key, operation: 'read', sentAt: clock.now() };
    if (turn % 10 === 0) (await keys()).recordAccepted(use);
    for await (const trial of (await keys()).others(use, 'rejected')) trial.verdict = 'rejected';
    expect(await pay()).toBe('old');
    await pass(100);
  }
});

it('the key that is accepted last is kept', async () => {
  cached = inSource = ['new', 'old'];
  await respond(200);
  expect(kept).toEqual(['new']);
  await respond(403);
  await respond(200);
  expect(kept).toEqual(['new', 'old']);
});
