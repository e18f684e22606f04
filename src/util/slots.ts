import { inSpan, type SpanName } from '../trace.ts';
import { setTimer } from './clock.ts';

/** The part of a room that one holder may have. */
const share = 0.5;

/**
 * Room for a number of things at a time, of which one holder may have half. Whoever asks first whether there is room
 * starts nothing that it cannot finish.
 */
export class Room {
  readonly size: number;
  #inside = 0;
  /** By holder; absent without any. So however many names there are, it has at most as many as there is room. */
  readonly #held = new Map<string, number>();

  constructor(size: number) {
    this.size = Math.floor(size);
  }

  /** @returns leaves the room, to be called once; `undefined` if there is no room, for all or for one of the holders */
  enter(...holders: readonly string[]): (() => void) | undefined {
    if (!this.hasRoomFor(...holders)) return undefined;
    this.#change(holders, 1);
    return () => this.#change(holders, -1);
  }

  hasRoomFor(...holders: readonly string[]): boolean {
    const most = Math.ceil(this.size * share);
    return this.#inside < this.size && holders.every((one) => (this.#held.get(one) ?? 0) < most);
  }

  #change(holders: readonly string[], change: 1 | -1): void {
    this.#inside += change;
    for (const one of holders) {
      const held = (this.#held.get(one) ?? 0) + change;
      if (held === 0) this.#held.delete(one);
      else this.#held.set(one, held);
    }
  }
}

/** There is no room (`full`), or no turn came in time (`late`). Nothing was started. */
export class NoRoom extends Error {
  readonly reason: 'full' | 'late';

  constructor(reason: NoRoom['reason']) {
    super(reason);
    this.reason = reason;
  }
}

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
  readonly holder: readonly string[];
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
   * @throws NoRoom `full` at once, before anything is started; the promise rejects with `late`, or as the work does
   */
  run<T>(work: () => Promise<T>, holder?: string): Promise<T> {
    const holders = holder === undefined ? [] : [holder];
    const leave = this.#room.enter(...holders);
    const turn = leave === undefined ? this.#wait(holders) : undefined;
    return this.#run(work, turn, leave);
  }

  async #run<T>(
    work: () => Promise<T>,
    turn: Promise<() => void> | undefined,
    entered = (): void => {},
  ): Promise<T> {
    const { span } = this.#options;
    const leave = turn === undefined ? entered : await (span === undefined ? turn : inSpan(span, () => turn));
    try {
      return await work();
    } finally {
      leave();
      this.#startNext();
    }
  }

  #wait(holder: readonly string[]): Promise<() => void> {
    const leaveQueue = this.#queue.enter(...holder);
    if (leaveQueue === undefined) throw new NoRoom('full');
    const { promise, resolve, reject } = Promise.withResolvers<() => void>();
    const { maxWait } = this.#options;
    const end = (): void => {
      cancel();
      leaveQueue();
      this.#waiting.delete(waiting);
      this.#options.changed?.(this.#waiting.size);
    };
    const late = (): void => {
      end();
      reject(new NoRoom('late'));
    };
    const cancel = maxWait === undefined ? (): void => {} : setTimer(late, maxWait);
    const proceed = (leave: () => void): void => {
      end();
      resolve(leave);
    };
    const waiting = { holder, proceed };
    this.#waiting.add(waiting);
    this.#options.changed?.(this.#waiting.size);
    return promise;
  }

  /** Passes the slot to the one that has waited longest and may have it. */
  #startNext(): void {
    for (const { holder, proceed } of this.#waiting) {
      const leave = this.#room.enter(...holder);
      if (leave !== undefined) return proceed(leave);
    }
  }
}
