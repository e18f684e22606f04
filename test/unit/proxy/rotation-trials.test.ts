import { beforeEach, describe, expect, it } from '@jest/globals';
import { parseKeys } from '../../../src/keys/key.ts';
import type { KeyRing, UsableKey } from '../../../src/keys/source.ts';
import { Rotation } from '../../../src/proxy/rotation.ts';
import { reveal } from '../../../src/secret.ts';

const acme = { environment: 'sandbox', login: 'acme' };

describe('requests refused by the gateway', () => {
  let now: number;
  /** Control keys in the source, newest first. */
  let inSource: string[];
  /** What the gateway accepts. */
  let accepted: string;
  let rereads: number;
  let fallbacks: string[];
  /** Keys the gateway was sent a request with. */
  let sent: string[];
  let rotation: Rotation;

  beforeEach(() => {
    [now, inSource, accepted, rereads, fallbacks, sent] = [1e12, ['old'], 'old', 0, [], []];
    rotation = new Rotation({
      keys: {
        take: async () => ring(),
        reread: async () => {
          rereads += 1;
          return ring();
        },
      },
      meter: { fellBack: (_address, _kind, to) => void fallbacks.push(to), keyProblem: () => {} },
      clock: () => now,
      monotonic: () => now,
      overlap: 86_400_000,
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
    const key = await rotation.choose(acme, 'control_key');
    if (await send(key)) {
      rotation.noteAcceptance(acme, key);
      return true;
    }
    return (await rotation.retry(acme, key, send, (taken) => taken)) ?? false;
  }

  /** A request that may not. */
  async function pay(): Promise<boolean> {
    const key = await rotation.choose(acme, 'control_key');
    const taken = await send(key);
    if (!taken) rotation.noteRefusal(acme, key);
    return taken;
  }

  const together = (count: number) => Promise.all(Array.from({ length: count }, ask));

  it('together are all repeated with the key that one of them has tried', async () => {
    inSource = ['new', 'old'];
    expect(await together(20)).toEqual(Array(20).fill(true));
    expect(fallbacks).toEqual(['older']);
    expect(rereads).toBe(1);
    expect(sent).toHaveLength(40);
  });

  it('together are all repeated again when the gateway follows', async () => {
    inSource = ['new', 'old'];
    await ask();
    accepted = 'new';
    expect(await together(20)).toEqual(Array(20).fill(true));
    expect(fallbacks).toEqual(['older', 'newer']);
    expect(rereads).toBe(2);
  });

  it('are repeated although a payment was refused just before', async () => {
    inSource = ['new', 'old'];
    expect(await pay()).toBe(false);
    expect(await together(3)).toEqual([true, true, true]);
    expect(await pay()).toBe(true);
  });

  it('are tried with the key that was accepted last, when two versions were added since', async () => {
    await ask();
    inSource = ['newest', 'new', 'old'];
    expect(await ask()).toBe(true);
    expect(sent).toEqual(['old', 'newest', 'old']);
    inSource = ['newer still', 'newest', 'new', 'old'];
    expect(await ask()).toBe(true);
  });

  it('whatever the key cost one trial in five seconds', async () => {
    inSource = ['new', 'old'];
    accepted = 'none';
    for (let second = 0; second < 60; second += 1) {
      await together(10);
      await pay();
      now += 1000;
    }
    expect(sent).toHaveLength(60 * 11 + 12);
    expect(rereads).toBe(12);
    expect(fallbacks).toEqual([]);
  });

  it('that may not be sent again cost one look at the source in five seconds, and are sent once', async () => {
    accepted = 'none';
    for (let second = 0; second < 60; second += 1) {
      await Promise.all([pay(), pay(), pay()]);
      now += 1000;
    }
    expect(sent).toHaveLength(180);
    expect(rereads).toBe(12);
  });
});
