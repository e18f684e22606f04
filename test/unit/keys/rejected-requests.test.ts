import { beforeEach, describe, expect, it } from '@jest/globals';
import { parseKeys } from '../../../src/keys/key.ts';
import { KeySelector } from '../../../src/keys/key-selector.ts';
import type { KeyRing, UsableKey } from '../../../src/keys/ring.ts';
import { reveal } from '../../../src/secret.ts';

const payment = { operation: 'payment', place: '' };
const acme = { environment: 'sandbox', login: 'acme' };

describe('requests rejected by the gateway', () => {
  let now: number;
  /** Control keys in the source, newest first. */
  let inSource: string[];
  /** The key that the gateway accepts. */
  let accepted: string;
  let refreshes: number;
  let fallbacks: string[];
  /** Keys of the requests that were sent. */
  let sent: string[];
  let selector: KeySelector;

  beforeEach(() => {
    [now, inSource, accepted, refreshes, fallbacks, sent] = [1e12, ['old'], 'old', 0, [], []];
    selector = new KeySelector({
      keys: {
        get: async () => ring(),
        cached: ring,
        isFailing: () => false,
        keep: () => {},
        look: async () => {
          refreshes += 1;
          return ring();
        },
      },
      metrics: {
        keyFallback: (_login, _kind, to) => void fallbacks.push(to),
        keyProblem: () => {},
      },
      clock: () => now,
      monotonic: () => now,
      setTimer: () => () => {},
      rotationGracePeriod: 86_400_000,
    });
  });

  function ring(): KeyRing {
    return inSource.flatMap((controlKey, index) =>
      parseKeys(
        { control_key: controlKey },
        {
          version: inSource.length - index,
          ...(index === 0 ? {} : { supersededAt: new Date(now - 1000) }),
        },
      ),
    );
  }

  /** The gateway's response, some turns of the event loop later. */
  async function send(key: UsableKey): Promise<boolean> {
    const name = key.key.kind === 'control_key' ? reveal(key.key.secret) : '';
    const isAccepted = name === accepted;
    sent.push(name);
    await new Promise((resolve) => setImmediate(resolve));
    return isAccepted;
  }

  /** Sends a retryable request; returns whether it was accepted in the end. */
  async function request(): Promise<boolean> {
    const keys = await selector.keysOf(acme, 'control_key');
    const use = { key: keys.select(), operation: 'read', sentAt: now };
    let isAccepted = await send(use.key);
    if (isAccepted) {
      keys.recordAccepted(use);
      return true;
    }
    for await (const trial of keys.others(use, 'rejected')) {
      isAccepted = await send(trial.key);
      trial.verdict = isAccepted ? 'accepted' : 'rejected';
    }
    return isAccepted;
  }

  /** Sends a single-attempt request. `undefined`: not sent. */
  async function pay(): Promise<boolean | undefined> {
    const keys = await selector.keysOf(acme, 'control_key');
    const choice = await keys.selectForPayment(payment).catch(whyNotSent);
    if (choice === undefined) return undefined;
    const use = { key: choice.key, operation: 'payment', sentAt: now };
    const isAccepted = await send(choice.key);
    if (isAccepted) keys.recordAccepted(use);
    else keys.recordRejected(use, 'rejected');
    choice.probe?.end();
    return isAccepted;
  }

  function whyNotSent(error: unknown): undefined {
    expect(error).toMatchObject({ reason: 'key-rejected', outcome: 'not-sent' });
  }

  const together = (count: number) => Promise.all(Array.from({ length: count }, request));

  it('at the same time are all retried with the key that one of them has tried', async () => {
    inSource = ['new', 'old'];
    expect(await together(20)).toEqual(Array(20).fill(true));
    expect(fallbacks).toEqual(['older']);
    // The accepted key was in the ring.
    expect(refreshes).toBe(0);
    expect(sent).toHaveLength(40);
  });

  it('at the same time are all retried again when the gateway switches', async () => {
    inSource = ['new', 'old'];
    await request();
    accepted = 'new';
    expect(await together(20)).toEqual(Array(20).fill(true));
    expect(fallbacks).toEqual(['older', 'newer']);
    expect(refreshes).toBe(0);
  });

  it('are retried even if a payment was rejected just before', async () => {
    inSource = ['new', 'old'];
    expect(await pay()).toBe(false);
    expect(await together(3)).toEqual([true, true, true]);
    expect(await pay()).toBe(true);
  });

  it('are retried with the last accepted key, if two versions were added since', async () => {
    await request();
    inSource = ['newest', 'new', 'old'];
    expect(await request()).toBe(true);
    expect(sent).toEqual(['old', 'newest', 'old']);
    inSource = ['newer still', 'newest', 'new', 'old'];
    expect(await request()).toBe(true);
  });

  it('with every key cause one trial per step of the back-off, and one look per second', async () => {
    inSource = ['new', 'old'];
    accepted = 'none';
    for (let second = 0; second < 60; second += 1) {
      await together(10);
      await pay();
      now += 1000;
    }
    // Reads; trials at 0, 1, 3, 7, 15 and 31 s; with each key a payment, and one more; probes at 4, 8, 16 and 32 s.
    expect(sent).toHaveLength(60 * 10 + 6 + 2 + 1 + 4);
    expect(refreshes).toBe(60);
    expect(fallbacks).toEqual([]);
  });

  it('that must not be retried are sent once per step of the back-off, and cause one look per second', async () => {
    accepted = 'none';
    for (let second = 0; second < 60; second += 1) {
      await Promise.all([pay(), pay(), pay()]);
      now += 1000;
    }
    // Those in flight at the first 403; the next one; then at 3, 7, 15 and 31 s.
    expect(sent).toHaveLength(3 + 1 + 4);
    expect(refreshes).toBe(60);
  });
});
