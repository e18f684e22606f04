import { ProxyError } from '../../src/errors.ts';
import { formIn, testimonyOf } from '../../src/gateway/response.ts';
import type { KeyChoice } from '../../src/keys/choice.ts';
import { sameKey } from '../../src/keys/ring.ts';
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
  readonly looked: (login: string) => void;
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
  readonly #keys: ReturnType<typeof keysOver>;
  #isUp = true;

  constructor(options: InstanceOptions) {
    const { time, random, vault, ttl, looked, stepsReset } = options;
    this.#options = options;
    this.#keys = keysOver(vault.read, time, {
      random: () => random.next(),
      settings: { ttl, maxEntries: 1_000 },
      events: {
        keyRingUpdated: stepsReset,
        keySourceUp: (isUp) => {
          if (isUp && !this.#isUp) stepsReset();
          this.#isUp = isUp;
        },
      },
      looked: ({ login }) => looked(login),
    });
    this.#keys.reader.start();
  }

  stop(): void {
    this.#keys.reader.stop();
  }

  /** The names of the keys that may sign now, newest first; none if the login is not in memory. */
  keysOf(login: string): readonly string[] {
    return this.#choiceOf(login)?.keys.map(nameOf) ?? [];
  }

  currentOf(login: string): string | undefined {
    const choice = this.#choiceOf(login);
    return choice && nameOf(choice.current);
  }

  /** @returns the status that the client gets, or the reason of Countersign's own response */
  async request(
    { login, caller, endpoint, operation }: Form,
    { chosen, post }: Way,
  ): Promise<number | string> {
    const { time, random } = this.#options;
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
      const { status } = await this.#keys.keySelector[operation](request, async (keyNow) => {
        let key = keyNow();
        chosen(nameOf(key), this.currentOf(login));
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

  #choiceOf(login: string): KeyChoice | undefined {
    return this.#keys.table.peek({ environment, login })?.choices.get(kind);
  }
}
