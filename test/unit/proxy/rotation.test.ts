import { beforeEach, describe, expect, it } from '@jest/globals';
import { Refusal } from '../../../src/errors.ts';
import { parseKeys } from '../../../src/keys/key.ts';
import type { KeyRing, UsableKey } from '../../../src/keys/source.ts';
import { Rotation } from '../../../src/proxy/rotation.ts';
import { reveal } from '../../../src/secret.ts';

const acme = { environment: 'sandbox', login: 'acme' };

/** What is held in memory and what is in the source, as control keys, newest first; `undefined`: none. */
let held: string[] | undefined;
let inSource: string[] | undefined;
let sourceFails: boolean;
let accepted: Set<string>;
let sent: string[];
let rereads: number;
let problems: string[];
/** Milliseconds, never set back. */
let now: number;
/** By how much the wall clock was set back, in milliseconds. */
let setBack: number;
let rotation: Rotation;

beforeEach(() => {
  [held, inSource, sourceFails] = [['new', 'old'], ['new', 'old'], false];
  [accepted, sent, rereads, problems, now] = [new Set(['old']), [], 0, [], 1e12];
  setBack = 0;
  const keys = {
    take: async () => {
      if (held === undefined) throw new Refusal('key-missing', 'no keys');
      return ringOf(held);
    },
    reread: async () => {
      rereads += 1;
      if (sourceFails) throw new Refusal('key-source-unavailable', 'the source is down');
      held = inSource;
      return inSource === undefined ? undefined : ringOf(inSource);
    },
  };
  const meter = { fellBack: () => {}, keyProblem: (problem: string) => void problems.push(problem) };
  rotation = new Rotation({
    keys,
    meter,
    clock: () => now - setBack,
    monotonic: () => now,
    overlap: 86_400_000,
  });
});

function ringOf(controlKeys: readonly string[]): KeyRing {
  return controlKeys.flatMap((controlKey, index) => {
    const superseded = index === 0 ? {} : { supersededAt: new Date(now - 1000) };
    return parseKeys({ control_key: controlKey }, { version: controlKeys.length - index, ...superseded });
  });
}

const textOf = ({ key }: UsableKey): string => (key.kind === 'control_key' ? reveal(key.secret) : '');

async function send(key: UsableKey): Promise<boolean> {
  sent.push(textOf(key));
  return accepted.has(textOf(key));
}

const choose = async (): Promise<string> => textOf(await rotation.choose(acme, 'control_key'));

/** A request whose key is refused, unless it is accepted; `undefined`: passed on untried. */
async function ask(sendAgain = send): Promise<boolean | undefined> {
  const key = await rotation.choose(acme, 'control_key');
  if (await send(key)) return true;
  return rotation.retry(acme, key, sendAgain, (taken) => taken);
}

describe('a refused request', () => {
  it('is tried with a key that is new in the source', async () => {
    held = ['old'];
    accepted = new Set(['new']);
    expect(await ask()).toBe(true);
    expect(sent).toEqual(['old', 'new']);
    expect(await choose()).toBe('new');
  });

  it('is passed on when the source has no other key', async () => {
    [held, inSource] = [['new'], ['new']];
    expect(await ask()).toBeUndefined();
    expect(sent).toEqual(['new']);
    expect(rereads).toBe(1);
  });

  it('is passed on when its keys have gone meanwhile', async () => {
    inSource = undefined;
    expect(await ask()).toBeUndefined();
    now += 5_000;
    expect(await rotation.retry(acme, keyOf('new'), send, Boolean)).toBeUndefined();
    expect(problems.at(-1)).toContain('after a 403 no other key could be tried');
  });

  it('is passed on when the source cannot be read', async () => {
    sourceFails = true;
    expect(await ask()).toBeUndefined();
    expect(problems).toEqual(['after a 403 no other key could be tried: the source is down']);
  });

  it('gets the second refusal when the other key is refused as well', async () => {
    accepted = new Set();
    expect(await ask()).toBe(false);
    expect(sent).toEqual(['new', 'old']);
  });

  it('gets the failure of its second sending, and those who wait for it do not', async () => {
    const failing = Promise.withResolvers<boolean>();
    const first = ask(() => failing.promise);
    await settled();
    const second = ask();
    await settled();
    failing.reject(new Error('lost'));
    await expect(first).rejects.toThrow('lost');
    expect(await second).toBeUndefined();
  });
});

describe('the pause of five seconds', () => {
  it('follows a trial that did not help', async () => {
    accepted = new Set();
    await ask();
    now += 4_999;
    expect(await ask()).toBeUndefined();
    now += 1;
    expect(await ask()).toBe(false);
    expect(rereads).toBe(2);
  });

  it('is no longer where the clock was set back meanwhile', async () => {
    accepted = new Set();
    await ask();
    setBack = 3_600_000;
    now += 5_000;
    expect(await ask()).toBe(false);
  });

  it('follows a trial that failed', async () => {
    await expect(ask(() => Promise.reject(new Error('lost')))).rejects.toThrow('lost');
    expect(await ask()).toBeUndefined();
  });

  it('does not follow a trial that helped', async () => {
    expect(await ask()).toBe(true);
    accepted = new Set(['new']);
    expect(await ask()).toBe(true);
    accepted = new Set(['old']);
    expect(await ask()).toBe(true);
    expect(sent).toEqual(['new', 'old', 'old', 'new', 'new', 'old']);
  });

  it('of one login or kind of key is not that of another', async () => {
    accepted = new Set();
    await ask();
    const other = { environment: 'production', login: 'acme' };
    const again = await rotation.retry(other, keyOf('new'), send, (taken) => taken);
    expect(again).toBe(false);
  });
});

describe('the accepted key', () => {
  it('is preferred from then on', async () => {
    await ask();
    for (let turn = 0; turn < 3; turn += 1) expect(await choose()).toBe('old');
  });

  it('is preferred until there is a newer one', async () => {
    await ask();
    held = ['newest', 'new', 'old'];
    expect(await choose()).toBe('newest');
  });

  it('is preferred until it is gone', async () => {
    await ask();
    held = ['new'];
    expect(await choose()).toBe('new');
  });

  it('is found among several, one trial after the other', async () => {
    [held, inSource] = [
      ['newest', 'new', 'old'],
      ['newest', 'new', 'old'],
    ];
    expect(await ask()).toBe(false);
    now += 5_000;
    expect(await ask()).toBe(true);
    expect(sent).toEqual(['newest', 'new', 'newest', 'old']);
    expect(await choose()).toBe('old');
  });
});

it('a refused payment makes a newer key known to the next one', async () => {
  [held, accepted] = [['old'], new Set(['new'])];
  rotation.noteRefusal(acme, await rotation.choose(acme, 'control_key'));
  await settled();
  expect(await choose()).toBe('new');
  expect(sent).toEqual([]);
});

function keyOf(controlKey: string): UsableKey {
  const [key] = parseKeys({ control_key: controlKey }, { version: 1 });
  if (key === undefined || 'problem' in key) throw new Error('not a key');
  return key;
}

function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
