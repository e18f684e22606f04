import { ProxyError } from '../../src/errors.ts';
import { formIn, testimonyOf } from '../../src/gateway/response.ts';
import type { KeyChoice } from '../../src/keys/choice.ts';
import { type KeySource, silentObserver } from '../../src/keys/key-source.ts';
import { KeyReader } from '../../src/keys/reader.ts';
import { sameKey } from '../../src/keys/ring.ts';
import { KeySelector, type Send } from '../../src/keys/selector.ts';
import { KeyTable } from '../../src/keys/table.ts';
import type { Random } from '../support/random.ts';
import type { Form, Response } from './gateway.ts';
import { gracePeriod, nameOf, type Vault } from './vault.ts';
import { epoch, type VirtualTime } from './virtual-time.ts';

/** The status that the client got, or the reason of Countersign's own response. */
export type End = number | string;

const environment = 'sandbox';
const kind = 'control_key';
/** Milliseconds: of `environments.*.timeouts`. */
const requestTimeout = 30_000;
const maxInFlight = 1_000;

interface InstanceOptions {
  readonly time: VirtualTime;
  readonly random: Random;
  readonly vault: Vault;
  readonly ttl: number;
  /** @param reader of the configuration */
  readonly looked: (login: string, reader: number) => void;
  /** Other keys may be tried at once: a ring has changed, or the source is back. */
  readonly stepsReset: () => void;
  /** A key was chosen for a request that was not sent yet. */
  readonly chosen: (form: Form, key: string, current: string | undefined) => void;
  /** Sends a signed request. @throws ProxyError */
  readonly post: (form: Form, key: string) => Promise<Response>;
}

/** The part of a Countersign process that handles keys: the real one. What signs, sends and reads is the model's. */
export class Instance {
  readonly #options: InstanceOptions;
  #table: KeyTable;
  #reader: KeyReader;
  #selector: KeySelector;
  #isUp = true;
  #isStopped = false;
  #readers = 0;

  constructor(options: InstanceOptions) {
    this.#options = options;
    [this.#table, this.#reader, this.#selector] = this.#start();
  }

  /** Another configuration of the keys, unless they cannot be read with it. Requests that began before go on. */
  async reload(): Promise<void> {
    const [table, reader, selector] = this.#start();
    const inUse = [...this.#table.logins()].filter((login) => this.#table.isInUse(login));
    const { time, vault } = this.#options;
    const readAt = time.now;
    const readings = await Promise.allSettled(inUse.map(({ ref, ring }) => vault.read(ref, ring)));
    for (const [index, reading] of readings.entries()) {
      const [login, value] = [inUse[index], reading.status === 'fulfilled' ? reading.value : undefined];
      if (this.#isStopped || login === undefined || typeof value !== 'object') return reader.stop();
      table.seed(login, value.ring, readAt);
    }
    this.#reader.stop();
    [this.#table, this.#reader, this.#selector] = [table, reader, selector];
    this.#options.stepsReset();
  }

  stop(): void {
    this.#isStopped = true;
    this.#reader.stop();
  }

  /** The names of the keys that may sign now, newest first; none if the login is not in memory. */
  keysOf(login: string): readonly string[] {
    return choiceIn(this.#table, login)?.keys.map(nameOf) ?? [];
  }

  currentOf(login: string, table = this.#table): string | undefined {
    const choice = choiceIn(table, login);
    return choice && nameOf(choice.current);
  }

  async request(form: Form): Promise<End> {
    const { time } = this.#options;
    const { caller, endpoint, operation } = form;
    const request = {
      caller,
      endpoint,
      login: { environment, login: form.login },
      kind,
      readOnly: operation === 'query',
      deadline: time.now + requestTimeout,
      maxInFlight,
    } as const;
    const send = this.#sender(form);
    try {
      return (await this.#selector[operation](request, send)).status;
    } catch (error) {
      if (error instanceof ProxyError) return error.reason;
      throw error;
    }
  }

  /** As src/proxy/outbound/forwarder.ts does it. */
  #sender(form: Form): Send<Response> {
    const { time, random, chosen, post } = this.#options;
    // A reload replaces it only for the requests that begin afterwards.
    const table = this.#table;
    return async (keyNow) => {
      let key = keyNow();
      chosen(form, nameOf(key), this.currentOf(form.login, table));
      for (;;) {
        await time.wait(random.int(0, 5));
        const next = keyNow();
        if (sameKey(key, next)) break;
        key = next;
      }
      const sentAt = time.now;
      const response = await post(form, nameOf(key));
      return {
        response,
        testimony: testimonyOf({ ...response, form: formIn(response) }, { signature: 'RSA-SHA256' }),
        key,
        sentAt,
      };
    };
  }

  #start(): [KeyTable, KeyReader, KeySelector] {
    const { time, random, vault, ttl, looked, stepsReset } = this.#options;
    this.#readers += 1;
    const number = this.#readers;
    const monotonic = (): number => time.now;
    const setTimer: VirtualTime['timer'] = (run, milliseconds) => time.timer(run, milliseconds);
    const events = {
      ...silentObserver,
      currentKeyChanged: () => {},
      keyAccepted: () => {},
      keyRingUpdated: stepsReset,
      keySourceUp: (isUp: boolean) => {
        if (isUp && !this.#isUp) stepsReset();
        this.#isUp = isUp;
      },
    };
    const always = { start: () => {}, check: async () => {}, ready: () => true, stop: () => {} };
    const source: KeySource = { ...always, read: (ref, known) => vault.read(ref, known) };
    const cache = { ttl, negativeTtl: 10_000, staleIfError: 43_200_000, maxEntries: 1_000 };
    const table = new KeyTable(
      { ...cache, rotationGracePeriod: gracePeriod },
      { clock: () => epoch + time.now, monotonic, random: () => random.next(), events },
    );
    const reader = new KeyReader(source, table, {
      monotonic,
      setTimer,
      events,
      sourceName: 'model',
      looked: ({ login }) => looked(login, number),
    });
    reader.start();
    return [table, reader, new KeySelector({ table, reader, monotonic, setTimer, events })];
  }
}

function choiceIn(table: KeyTable, login: string): KeyChoice | undefined {
  return table.peek({ environment, login })?.choices.get(kind)?.choice;
}
