import { inSpan, type SpanName } from '../trace.ts';
import { setTimer } from './clock.ts';

/** The parts of a room that one holder may have, and what several holders share. No holder alone can take all of the latter. */
const shares = { holder: 0.5, shared: 0.75 };

/**
 * Room for a number of things at a time, of which one holder may have half. Whoever asks first whether there is room
 * starts nothing that it cannot finish.
 */
export class Room {
  readonly size: number;
  #inside = 0;
  /** By name; absent without any. So however many names there are, it has at most twice as many as there is room. */
  readonly #held = new Map<string, number>();

  constructor(size: number) {
    this.size = Math.floor(size);
  }

  /**
   * @param holder such as a caller: it may have half of the room. Without one there is no such limit
   * @param shared such as a login, under another name than any holder: it may have three quarters
   * @returns leaves the room, to be called once; `undefined` if there is no room
   */
  enter(holder?: string, shared?: string): (() => void) | undefined {
    const mayEnter =
      this.#inside < this.size &&
      this.#mayHave(holder, shares.holder) &&
      this.#mayHave(shared, shares.shared);
    if (!mayEnter) return undefined;
    this.#change(1, holder, shared);
    return () => this.#change(-1, holder, shared);
  }

  #mayHave(name: string | undefined, share: number): boolean {
    return name === undefined || (this.#held.get(name) ?? 0) < Math.ceil(this.size * share);
  }

  #change(change: 1 | -1, ...names: readonly (string | undefined)[]): void {
    this.#inside += change;
    for (const name of names.filter((one) => one !== undefined)) {
      const held = (this.#held.get(name) ?? 0) + change;
      if (held === 0) this.#held.delete(name);
      else this.#held.set(name, held);
    }
  }
}

/** There is no room, or no turn came in time. Nothing was started. */
export class NoRoom extends Error {}

interface SlotsOptions {
  /** What may run at a time. */
  readonly size: number;
  /** What may wait. */
  readonly queue: number;
  /** Milliseconds to wait at most; unlimited unless given. */
  readonly maxWait?: number;
  /** The step of a request that waits. */
  readonly span?: SpanName;
  /** The number of those that wait has changed. */
  readonly changed?: (waiting: number) => void;
}

interface Waiting {
  readonly holder: string | undefined;
  readonly proceed: (leave: () => void) => void;
}

/** A {@link Room} with a queue before it, which is a room too. */
export class Slots {
  readonly #room: Room;
  readonly #queue: Room;
  readonly #options: SlotsOptions;
  /** The longest first. While there is room, all that wait are of holders that have their half. */
  readonly #waiting = new Set<Waiting>();

  constructor(options: SlotsOptions) {
    this.#options = options;
    this.#room = new Room(options.size);
    this.#queue = new Room(options.queue);
  }

  /**
   * @param holder may have half of the slots; without one there is no such limit
   * @throws NoRoom, or as the work does
   */
  async run<T>(work: () => Promise<T>, holder?: string): Promise<T> {
    const leave = this.#room.enter(holder) ?? (await this.#wait(holder));
    try {
      return await work();
    } finally {
      leave();
      this.#startNext();
    }
  }

  #wait(holder?: string): Promise<() => void> {
    const leaveQueue = this.#queue.enter(holder);
    if (leaveQueue === undefined) throw new NoRoom();
    const { promise, resolve, reject } = Promise.withResolvers<() => void>();
    const { maxWait, span } = this.#options;
    const end = (): void => {
      cancel();
      leaveQueue();
      this.#waiting.delete(waiting);
      this.#options.changed?.(this.#waiting.size);
    };
    const late = (): void => {
      end();
      reject(new NoRoom());
    };
    const cancel = maxWait === undefined ? (): void => {} : setTimer(late, maxWait);
    const proceed = (leave: () => void): void => {
      end();
      resolve(leave);
    };
    const waiting = { holder, proceed };
    this.#waiting.add(waiting);
    this.#options.changed?.(this.#waiting.size);
    return span === undefined ? promise : inSpan(span, () => promise);
  }

  /** Passes the slot to the one that has waited longest and may have it. */
  #startNext(): void {
    for (const { holder, proceed } of this.#waiting) {
      const leave = this.#room.enter(holder);
      if (leave !== undefined) return proceed(leave);
    }
  }
}
