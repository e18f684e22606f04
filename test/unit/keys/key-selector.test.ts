import { beforeEach, describe, expect, it } from '@jest/globals';
import { ProxyError } from '../../../src/errors.ts';
import { parseKeys } from '../../../src/keys/key.ts';
import type { KeyProvider, LoginKeys } from '../../../src/keys/key-selector.ts';
import { KeySelector } from '../../../src/keys/key-selector.ts';
import type { KeyRing, UsableKey } from '../../../src/keys/ring.ts';
import type { Patience } from '../../../src/keys/waiting.ts';
import { reveal } from '../../../src/secret.ts';
import { garbageCollector } from '../../support/garbage.ts';
import { vectorText } from '../../support/vectors.ts';

const acme = { environment: 'sandbox', login: 'acme' };

/** The control keys in the cache and in the source, newest first; `undefined`: none. */
let cached: string[] | undefined;
let inSource: string[] | undefined;
let sourceFails: boolean;
let accepted: Set<string>;
let sent: string[];
let refreshes: number;
let problems: string[];
/** Milliseconds, never set back. */
let now: number;
/** By how much the wall clock was set back, in milliseconds. */
let setBack: number;
let selector: KeySelector;
let source: KeyProvider;
let waits: number[];
let endWait: () => void;

beforeEach(() => {
  [cached, inSource, sourceFails] = [['new', 'old'], ['new', 'old'], false];
  [accepted, sent, refreshes, problems, now] = [new Set(['old']), [], 0, [], 1e12];
  [setBack, waits] = [0, []];
  source = {
    get: async () => {
      if (cached === undefined) throw new ProxyError('key-missing', 'no keys');
      return ringOf(cached);
    },
    cached: () => (cached === undefined ? undefined : ringOf(cached)),
    isFailing: () => false,
    keep: () => {},
    look: async () => {
      refreshes += 1;
      if (sourceFails) throw new ProxyError('key-source-unavailable', 'the source is down');
      cached = inSource;
      return inSource === undefined ? undefined : ringOf(inSource);
    },
  };
  const metrics = {
    keyFallback: () => {},
    keyProblem: (problem: string) => void problems.push(problem),
  };
  selector = new KeySelector({
    keys: source,
    metrics,
    clock: () => now - setBack,
    monotonic: () => now,
    setTimer: (run, milliseconds) => {
      waits.push(milliseconds);
      endWait = run;
      return () => {};
    },
    rotationGracePeriod: 86_400_000,
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

const keys = (login = acme): Promise<LoginKeys> => selector.keysOf(login, 'control_key');

const select = async (): Promise<string> => textOf((await keys()).select());

/** Sends a request and its retries. Returns whether it was accepted; `undefined`: not retried. */
async function request(resend = send): Promise<boolean | undefined> {
  const ofLogin = await keys();
  const use = useOf(ofLogin.select());
  if (await send(use.key)) {
    ofLogin.recordAccepted(use);
    return true;
  }
  return retry(ofLogin, use.key, resend);
}

/** Sends a rejected request again. Returns whether it was accepted; `undefined`: not sent again. */
async function retry(
  ofLogin: LoginKeys,
  rejected: UsableKey,
  resend = send,
  patience?: Patience,
): Promise<boolean | undefined> {
  let isAccepted: boolean | undefined;
  for await (const trial of ofLogin.others(useOf(rejected), 'rejected', patience)) {
    isAccepted = await resend(trial.key);
    trial.verdict = isAccepted ? 'accepted' : 'rejected';
  }
  return isAccepted;
}

const useOf = (key: UsableKey, operation = 'read') => ({ key, operation, sentAt: now });

describe('a rejected request', () => {
  it('is retried with a key that is new in the source', async () => {
    cached = ['old'];
    accepted = new Set(['new']);
    expect(await request()).toBe(true);
    expect(sent).toEqual(['old', 'new']);
    expect(await select()).toBe('new');
  });

  it('is not retried with a key that left the ring after it was signed', async () => {
    const [newest, old] = [keyOf('new'), keyOf('old')];
    const ofLogin = await keys();
    ofLogin.recordAccepted(useOf(old));
    cached = inSource = ['new', 'other'];
    await retry(ofLogin, newest);
    expect(sent).toEqual(['other']);
  });

  it('is not retried with a key that leaves the ring during another retry', async () => {
    cached = inSource = ['new', 'old', 'older'];
    accepted = new Set(['other']);
    const sendAndRemove = (key: UsableKey): Promise<boolean> => {
      cached = inSource = ['new', 'other'];
      return send(key);
    };
    await retry(await keys(), keyOf('new'), sendAndRemove);
    expect(sent).toEqual(['old', 'other']);
  });

  it('waits for the refresh', async () => {
    [cached, inSource] = [['old'], ['new', 'old']];
    accepted = new Set(['new']);
    const read = Promise.withResolvers<void>();
    const look = source.look.bind(source);
    source.look = (login) => read.promise.then(() => look(login));
    const requested = request();
    await settled();
    expect(sent).toEqual(['old']);
    read.resolve();
    expect(await requested).toBe(true);
    expect(sent).toEqual(['old', 'new']);
  });

  it('is not retried if the source has no other key', async () => {
    [cached, inSource] = [['new'], ['new']];
    expect(await request()).toBeUndefined();
    expect(sent).toEqual(['new']);
    expect(refreshes).toBe(1);
  });

  it('is not retried if no time is left, and its key does not back off', async () => {
    const deadline = now + 1_000;
    const inTime = async (resend = send) =>
      retry(await keys(), keyOf('new'), resend, { deadline, maxWaiting: 1 });
    now = deadline;
    expect(await inTime()).toBeUndefined();
    expect([sent, refreshes]).toEqual([[], 0]);
    now = deadline - 1;
    const timeout = async (): Promise<boolean> => {
      now = deadline;
      throw new Error('timeout');
    };
    await expect(inTime(timeout)).rejects.toThrow('timeout');
    now = deadline - 1;
    expect(await inTime()).toBe(true);
    expect(sent).toEqual(['old']);
  });

  it('looks for no other key when its time is over', async () => {
    const deadline = now + 1_000;
    const tooLate = async (key: UsableKey): Promise<boolean> => {
      sent.push(textOf(key));
      now = deadline;
      return false;
    };
    await retry(await keys(), keyOf('new'), tooLate, { deadline, maxWaiting: 1 });
    expect([sent, refreshes]).toEqual([['old'], 0]);
  });

  it('is not retried if its keys were removed meanwhile', async () => {
    [cached, inSource] = [['new'], undefined];
    const ofLogin = await keys();
    expect(await request()).toBeUndefined();
    now += 5_000;
    expect(await retry(ofLogin, keyOf('new'))).toBeUndefined();
    expect(problems.at(-1)).toContain('key fallback after 403 failed');
  });

  it('is not retried if the source cannot be read', async () => {
    [cached, sourceFails] = [['new'], true];
    expect(await request()).toBeUndefined();
    expect(problems).toEqual(['key fallback after 403 failed: the source is down']);
  });

  it('is retried with a cached key while the source cannot be read', async () => {
    sourceFails = true;
    expect(await request()).toBe(true);
    expect(sent).toEqual(['new', 'old']);
  });

  it('gets the second 403 if the other key is rejected as well', async () => {
    accepted = new Set();
    expect(await request()).toBe(false);
    expect(sent).toEqual(['new', 'old']);
  });

  it('gets the error of its retry, and the requests that wait for it do not', async () => {
    const failing = Promise.withResolvers<boolean>();
    const first = request(() => failing.promise);
    await settled();
    const second = request();
    await settled();
    failing.reject(new Error('lost'));
    await expect(first).rejects.toThrow('lost');
    expect(await second).toBeUndefined();
  });
});

describe('the back-off', () => {
  it('of a key follows a rejected trial, and doubles', async () => {
    accepted = new Set();
    const trials = [];
    for (let second = 0; second < 8; second += 1) {
      if ((await request()) !== undefined) trials.push(second);
      now += 1_000;
    }
    expect(trials).toEqual([0, 1, 3, 7]);
  });

  it('of looks is one second, for as long as a key was accepted before', async () => {
    [cached, inSource, accepted] = [['new'], ['new'], new Set(['new'])];
    await request();
    accepted = new Set();
    expect(await looksWithin(900)).toBe(900);
  });

  it('of looks is 30 s after five minutes in which the gateway never accepted a key', async () => {
    [cached, inSource] = [['new'], ['new']];
    expect(await looksWithin(300)).toBe(300);
    expect(await looksWithin(300)).toBe(10);
    [cached, inSource] = [['newer'], ['newer']];
    expect(await looksWithin(10)).toBe(10);
  });

  it('of looks ends when the source is back', async () => {
    [cached, inSource] = [['new'], ['new']];
    await looksWithin(330);
    selector.lookAgain();
    expect(await looksWithin(1)).toBe(1);
  });

  /** How many looks there are while a request comes each second. */
  async function looksWithin(seconds: number): Promise<number> {
    const before = refreshes;
    for (let second = 0; second < seconds; second += 1) {
      await request();
      now += 1_000;
    }
    return refreshes - before;
  }

  it('of looks is at least one second, for both kinds of key together', async () => {
    [cached, inSource] = [['new'], ['new']];
    await request();
    inSource = ['newest', 'new'];
    now += 999;
    await request();
    expect(refreshes).toBe(1);
    now += 1;
    accepted = new Set(['newest']);
    expect(await request()).toBe(true);
    expect(refreshes).toBe(2);
  });

  it('is no longer if the clock was set back meanwhile', async () => {
    accepted = new Set();
    await request();
    setBack = 3_600_000;
    now += 1_000;
    expect(await request()).toBe(false);
  });

  it('follows a trial that failed with an error', async () => {
    await expect(request(() => Promise.reject(new Error('lost')))).rejects.toThrow('lost');
    expect(await request()).toBeUndefined();
  });

  it('does not follow a trial that was accepted', async () => {
    expect(await request()).toBe(true);
    accepted = new Set(['new']);
    expect(await request()).toBe(true);
    accepted = new Set(['old']);
    expect(await request()).toBe(true);
    expect(sent).toEqual(['new', 'old', 'old', 'new', 'new', 'old']);
  });

  it('is separate per login and kind of key', async () => {
    accepted = new Set();
    await request();
    const other = { environment: 'production', login: 'acme' };
    expect(await retry(await keys(other), keyOf('new'))).toBe(false);
  });
});

describe('the accepted key', () => {
  it('is preferred from then on', async () => {
    await request();
    for (let turn = 0; turn < 3; turn += 1) expect(await select()).toBe('old');
  });

  it('is preferred until there is a newer one', async () => {
    await request();
    cached = ['newest', 'new', 'old'];
    expect(await select()).toBe('newest');
  });

  it('is preferred until it is removed', async () => {
    await request();
    cached = ['new'];
    expect(await select()).toBe('new');
  });

  it('is found among several by a single request', async () => {
    [cached, inSource] = [
      ['newest', 'new', 'old'],
      ['newest', 'new', 'old'],
    ];
    expect(await request()).toBe(true);
    expect(sent).toEqual(['newest', 'new', 'old']);
    expect(await select()).toBe('old');
  });
});

describe('a payment signed after a 403', () => {
  const pay = async (): Promise<string> => textOf(await (await keys()).selectOnce());
  const reject = async (key: string): Promise<void> => {
    (await keys()).recordRejected(useOf(keyOf(key), 'payment'), 'rejected');
  };

  it('waits for the refresh, and uses the newer key', async () => {
    [cached, accepted] = [['old'], new Set(['new'])];
    await request();
    cached = ['old'];
    (await keys()).recordAccepted(useOf(keyOf('old')));
    now += 1_000;
    await reject('old');
    expect(await pay()).toBe('new');
  });

  it('waits for a refresh in flight, and uses the key that it brings', async () => {
    [cached, inSource] = [['old'], ['new', 'old']];
    (await keys()).recordAccepted(useOf(keyOf('old')));
    const read = Promise.withResolvers<void>();
    const look = source.look.bind(source);
    source.look = (login) => read.promise.then(() => look(login));
    await reject('old');
    const paying = pay();
    await settled();
    read.resolve();
    expect(await paying).toBe('new');
  });

  it('waits for the trial in flight, and uses the key that it finds', async () => {
    cached = ['newest', 'new', 'old'];
    const ofLogin = await keys();
    ofLogin.recordAccepted(useOf(keyOf('new')));
    const response = Promise.withResolvers<boolean>();
    const reading = retry(ofLogin, keyOf('new'), async (key) =>
      textOf(key) === 'newest' ? response.promise : send(key),
    );
    const paying = pay();
    await settled();
    response.resolve(false);
    expect(await reading).toBe(true);
    expect(await paying).toBe('old');
  });

  it('uses the other key if only that of a read was not about its key', async () => {
    const ofLogin = await keys();
    ofLogin.recordAccepted(useOf(keyOf('old')));
    for await (const trial of ofLogin.others(useOf(keyOf('new')), 'clock-skew')) {
      expect(textOf(trial.key)).toBe('old');
      trial.verdict = 'rejected';
    }
    expect(await pay()).toBe('new');
  });

  it('waits for one second at most', async () => {
    const ofLogin = await keys();
    ofLogin.recordAccepted(useOf(keyOf('old')));
    void retry(ofLogin, keyOf('old'), () => new Promise<boolean>(() => {}));
    const paying = pay();
    await settled();
    expect(waits).toEqual([1_000]);
    endWait();
    expect(await paying).toBe('new');
  });
});

it('keeps the history of each kind of key apart', async () => {
  cached = ['new', 'old'];
  await request();
  expect(await select()).toBe('old');
  const pem = vectorText('keys/rsa-2048-pkcs8.pem');
  const other = vectorText('keys/rsa-4096-pkcs8.pem');
  const rings = [
    ...parseKeys({ control_key: 'new', private_key: pem }, { version: 2 }),
    ...parseKeys({ control_key: 'old', private_key: other }, { version: 1, supersededAt: new Date(now) }),
  ];
  source.get = async () => rings;
  const privateKeys = await selector.keysOf(acme, 'private_key');
  expect(privateKeys.select().version).toBe(2);
  expect((await privateKeys.selectOnce()).version).toBe(2);
  expect((await (await keys()).selectOnce()).version).toBe(1);
});

it('a rejected payment makes a newer key known to the next one', async () => {
  [cached, accepted] = [['old'], new Set(['new'])];
  (await keys()).recordRejected(useOf(keyOf('old')), 'rejected');
  await settled();
  expect(await select()).toBe('new');
  expect(sent).toEqual([]);
});

it('nothing is remembered of logins that have no keys, whose names callers invent', async () => {
  cached = undefined;
  const collectGarbage = garbageCollector();
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  for (let made = 0; made < 20_000; made += 1) {
    const login = { environment: 'sandbox', login: `invented-${made}` };
    await keys(login).catch(() => {});
    await selector.keysOf(login, 'private_key').catch(() => {});
  }
  collectGarbage();
  expect((process.memoryUsage().heapUsed - before) / 20_000).toBeLessThan(100);
  // Still in use: what it remembers is not collected.
  await expect(select()).rejects.toThrow('no keys');
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

it('keys that nobody waits for may fail to be read', async () => {
  cached = undefined;
  const unhandled: unknown[] = [];
  const listen = (reason: unknown): void => void unhandled.push(reason);
  process.on('unhandledRejection', listen);
  const impatient = { deadline: now + 1_000, maxWaiting: 0 };
  await expect(selector.keysOf(acme, 'control_key', impatient)).rejects.toMatchObject({
    reason: 'overloaded',
  });
  await new Promise((resolve) => setImmediate(resolve));
  process.off('unhandledRejection', listen);
  expect(unhandled).toEqual([]);
});

it('the 403 of a payment because of the clock says nothing about its key', async () => {
  const ofLogin = await keys();
  const key = await ofLogin.selectOnce();
  ofLogin.recordRejected(useOf(key, 'payment'), 'clock-skew', 'here');
  expect([ofLogin.history.isRejected(key), ofLogin.history.hasRejectedPayment(key, 'here')]).toEqual([
    false,
    false,
  ]);
  ofLogin.recordRejected(useOf(key, 'payment'), 'rejected', 'here');
  expect([ofLogin.history.isRejected(key), ofLogin.history.hasRejectedPayment(key, 'here')]).toEqual([
    true,
    true,
  ]);
});
