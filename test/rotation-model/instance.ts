import { ProxyError } from '../../src/errors.ts';
import { formIn, testimonyOf } from '../../src/gateway/response.ts';
import type { KeyChoice } from '../../src/keys/choice.ts';
import { sameKey } from '../../src/keys/ring.ts';
import type { KeyTable } from '../../src/keys/table.ts';
import { keysOver } from '../support/fixed-keys.ts';
import type { Random } from '../support/random.ts';
import type { VirtualClock } from '../support/virtual-clock.ts';
import type { Response } from './gateway.ts';
import type { Form } from './schedule.ts';
import { nameOf, type Vault } from './vault.ts';

const environment = 'sandbox';
const kind = 'control_key';
/** Milliseconds: of `environments.*.timeouts`. */
const requestTimeout = 30_000;

interface InstanceOptions {
  readonly time: VirtualClock;
  readonly random: Random;
  readonly vault: Vault;
  readonly ttl: number;
  /** @param reader of the configuration */
  readonly looked: (login: string, reader: number) => void;
  /** Other keys may be tried at once: a ring has changed, or the source is back. */
  readonly stepsReset: () => void;
}

/** What happens to a request on its way. */
export interface Way {
  /** A key was chosen; nothing was sent yet. */
  readonly chosen: (key: string, current: string | undefined) => void;
  /** Sends it, signed. @throws ProxyError */
  readonly post: (key: string) => Promise<Response>;
}

/** The part of a Countersign process that handles keys: the real one. What signs, sends and reads is the model's. */
export class Instance {
  readonly #options: InstanceOptions;
  #keys: ReturnType<typeof keysOver>;
  #isUp = true;
  #isStopped = false;
  #readers = 0;

  constructor(options: InstanceOptions) {
    this.#options = options;
    this.#keys = this.#start();
  }

  /** Another configuration of the keys, unless they cannot be read with it. Requests that began before go on. */
  async reload(): Promise<void> {
    const [before, next] = [this.#keys, this.#start()];
    const inUse = [...before.table.logins()].filter((login) => before.table.isInUse(login));
    const { time, vault } = this.#options;
    const readAt = time.now;
    const readings = await Promise.allSettled(inUse.map(({ ref, ring }) => vault.read(ref, ring)));
    for (const [index, reading] of readings.entries()) {
      const [login, value] = [inUse[index], reading.status === 'fulfilled' ? reading.value : undefined];
      if (this.#isStopped || login === undefined || typeof value !== 'object') return next.reader.stop();
      next.table.seed(login, value.ring, readAt);
    }
    before.reader.stop();
    this.#keys = next;
    this.#options.stepsReset();
  }

  stop(): void {
    this.#isStopped = true;
    this.#keys.reader.stop();
  }

  /** The names of the keys that may sign now, newest first; none if the login is not in memory. */
  keysOf(login: string): readonly string[] {
    return choiceIn(this.#keys.table, login)?.keys.map(nameOf) ?? [];
  }

  currentOf(login: string, { table } = this.#keys): string | undefined {
    const choice = choiceIn(table, login);
    return choice && nameOf(choice.current);
  }

  /** @returns the status that the client gets, or the reason of Countersign's own response */
  async request(
    { login, caller, endpoint, operation }: Form,
    { chosen, post }: Way,
  ): Promise<number | string> {
    const { time, random } = this.#options;
    // A reload replaces them only for the requests that begin afterwards.
    const keys = this.#keys;
    const request = {
      caller,
      endpoint,
      kind,
      login: { environment, login },
      readOnly: operation === 'query',
      deadline: time.now + requestTimeout,
      maxInFlight: 1_000,
    } as const;
    try {
      // As src/proxy/outbound/forwarder.ts does it.
      const { status } = await keys.keySelector[operation](request, async (keyNow) => {
        let key = keyNow();
        chosen(nameOf(key), this.currentOf(login, keys));
        for (;;) {
          await time.wait(random.int(0, 5));
          const next = keyNow();
          if (sameKey(key, next)) break;
          key = next;
        }
        const sentAt = time.now;
        const response = await post(nameOf(key));
        const read = { ...response, form: formIn(response) };
        return { response, testimony: testimonyOf(read, { signature: 'RSA-SHA256' }), key, sentAt };
      });
      return status;
    } catch (error) {
      if (error instanceof ProxyError) return error.reason;
      throw error;
    }
  }

  #start(): ReturnType<typeof keysOver> {
    const { time, random, vault, ttl, looked, stepsReset } = this.#options;
    this.#readers += 1;
    const number = this.#readers;
    const keys = keysOver((ref, known) => vault.read(ref, known), time, {
      random: () => random.next(),
      settings: { ttl, maxEntries: 1_000 },
      events: {
        keyRingUpdated: stepsReset,
        keySourceUp: (isUp) => {
          if (isUp && !this.#isUp) stepsReset();
          this.#isUp = isUp;
        },
      },
      looked: ({ login }) => looked(login, number),
    });
    keys.reader.start();
    return keys;
  }
}

function choiceIn(table: KeyTable, login: string): KeyChoice | undefined {
  return table.peek({ environment, login })?.choices.get(kind)?.choice;
}
