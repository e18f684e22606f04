import { beforeEach, describe, expect, it } from '@jest/globals';
import { parseKeys } from '../../../src/keys/key.ts';
import type { Verdict } from '../../../src/keys/key-retry.ts';
import { KeySelector } from '../../../src/keys/key-selector.ts';
import type { KeyRing, UsableKey } from '../../../src/keys/key-source.ts';
import { reveal } from '../../../src/secret.ts';

const acme = { environment: 'sandbox', login: 'acme' };

describe('requests rejected by the gateway', () => {
  let now: number;
  /** Control keys in the source, newest first. */
  let inSource: string[];
  /** What the gateway accepts. */
  let accepted: string;
  let rereads: number;
  let fallbacks: string[];
  /** Keys the gateway was sent a request with. */
  let sent: string[];
  let rotation: KeySelector;

  beforeEach(() => {
    [now, inSource, accepted, rereads, fallbacks, sent] = [1e12, ['old'], 'old', 0, [], []];
    rotation = new KeySelector({
      keys: {
        get: async () => ring(),
        refresh: async () => {
          rereads += 1;
          return ring();
        },
      },
      metrics: { keyFallback: (_address, _kind, to) => void fallbacks.push(to), keyProblem: () => {} },
      clock: () => now,
      monotonic: () => now,
      wait: () => new Promise(() => {}),
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

  /** One answer of the gateway, some turns of the event loop later. */
  async function send(key: UsableKey): Promise<boolean> {
    const name = key.key.kind === 'control_key' ? reveal(key.key.secret) : '';
    const taken = name === accepted;
    sent.push(name);
    await new Promise((resolve) => setImmediate(resolve));
    return taken;
  }

  /** A request that may be sent again; gives whether it was accepted in the end. */
  async function ask(): Promise<boolean> {
    const key = await rotation.select(acme, 'control_key');
    const use = { key, operation: 'read', sentAt: now };
    if (await send(key)) {
      rotation.recordAccepted(acme, use);
      return true;
    }
    const judge = (taken: boolean): Verdict => (taken ? 'accepted' : 'rejected');
    return (await rotation.retry(acme, use, 'rejected', { send: ({ key }) => send(key), judge })) ?? false;
  }

  /** A request that may not. */
  async function pay(): Promise<boolean> {
    const key = await rotation.select(acme, 'control_key', 'single-attempt');
    const use = { key, operation: 'payment', sentAt: now };
    const taken = await send(key);
    if (taken) rotation.recordAccepted(acme, use);
    else rotation.recordRejected(acme, use, 'rejected');
    return taken;
  }

  const together = (count: number) => Promise.all(Array.from({ length: count }, ask));

  it('at the same time are all retried with the key that one of them has tried', async () => {
    inSource = ['new', 'old'];
    expect(await together(20)).toEqual(Array(20).fill(true));
    expect(fallbacks).toEqual(['older']);
    // The ring held the key that helped.
    expect(rereads).toBe(0);
    expect(sent).toHaveLength(40);
  });

  it('at the same time are all retried again when the gateway switches', async () => {
    inSource = ['new', 'old'];
    await ask();
    accepted = 'new';
    expect(await together(20)).toEqual(Array(20).fill(true));
    expect(fallbacks).toEqual(['older', 'newer']);
    expect(rereads).toBe(0);
  });

  it('are retried even if a payment was rejected just before', async () => {
    inSource = ['new', 'old'];
    expect(await pay()).toBe(false);
    expect(await together(3)).toEqual([true, true, true]);
    expect(await pay()).toBe(true);
  });

  it('are retried with the last accepted key, if two versions were added since', async () => {
    await ask();
    inSource = ['newest', 'new', 'old'];
    expect(await ask()).toBe(true);
    expect(sent).toEqual(['old', 'newest', 'old']);
    inSource = ['newer still', 'newest', 'new', 'old'];
    expect(await ask()).toBe(true);
  });

  it('with every key cause one trial and one refresh per step of the back-off', async () => {
    inSource = ['new', 'old'];
    accepted = 'none';
    for (let second = 0; second < 60; second += 1) {
      await together(10);
      await pay();
      now += 1000;
    }
    // The trials at 0, 1, 3, 7, 15 and 31 s; the looks at 0 to 5, 7, 11, 19 and 35 s.
    expect(sent).toHaveLength(60 * 11 + 6);
    expect(rereads).toBe(10);
    expect(fallbacks).toEqual([]);
  });

  it('that must not be retried cause one refresh per step of the back-off, and are sent once', async () => {
    accepted = 'none';
    for (let second = 0; second < 60; second += 1) {
      await Promise.all([pay(), pay(), pay()]);
      now += 1000;
    }
    expect(sent).toHaveLength(180);
    expect(rereads).toBe(10);
  });
});
