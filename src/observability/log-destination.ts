import sonic, { type SonicBoom } from 'sonic-boom';
import { type MonotonicClock, setTimer } from '../util/clock.ts';

interface LogDestinationOptions extends MonotonicClock {
  /** A file, or a pipe or socket that does not block. */
  readonly descriptor: number;
}

/** Whether log lines can be written. */
export interface LogState {
  /** Lines were dropped in the last minute. */
  readonly logLinesDropped: boolean;
  /** Lines are waiting, and nothing could be written for five seconds. */
  readonly logStalled: boolean;
}

/** Bytes that may wait. */
const capacity = 1_048_576;
/** Milliseconds between writes of routine lines, whose write costs more than the rest of them, and between attempts. */
const interval = 20;
const recently = 60_000;
const stalledAfter = 5_000;

/**
 * Writes log lines without ever waiting: while the reader stalls or the disk is full, lines wait until they can be
 * written, in their order. Lines for which there is no room are dropped whole, and counted.
 * pino's own destination would lose lines uncounted once a pipe is closed, and block at the exit.
 */
export class LogDestination {
  readonly #stream: SonicBoom;
  readonly #monotonic: () => number;
  /** Called when nothing waits any more, with the number of lines that were dropped. */
  onRecovery?: (lines: number) => void;
  /** Lines that the stream does not have yet. */
  #gathered = '';
  #cancelTimer: (() => void) | undefined;
  /** Bytes since the start. */
  #accepted = 0;
  #written = 0;
  /** When bytes were written, or began to wait. */
  #progressAt = 0;
  /** Those who wait until this number of bytes is written. */
  readonly #awaited: { readonly end: number; readonly resolve: () => void }[] = [];
  #dropped = 0;
  #droppedAt: number | undefined;
  #reported = 0;

  constructor({ descriptor, monotonic }: LogDestinationOptions) {
    this.#monotonic = monotonic;
    // The stream keeps what it could not write. Its own timer for a stalled reader would keep the process alive.
    this.#stream = new sonic.SonicBoom({ fd: descriptor, retryEAGAIN: () => false })
      .on('write', (bytes: number) => this.#wrote(bytes))
      .on('error', () => this.#schedule());
  }

  /** @param lines end with a line feed; they are accepted or dropped together */
  write(lines: string): void {
    if (!this.hasRoom) {
      this.#dropped += lines.split('\n').length - 1;
      this.#droppedAt = this.#monotonic();
      return;
    }
    if (this.#written === this.#accepted) this.#progressAt = this.#monotonic();
    this.#accepted += Buffer.byteLength(lines);
    this.#gathered += lines;
    this.#schedule();
  }

  get hasRoom(): boolean {
    return this.#accepted - this.#written < capacity;
  }

  /** The lines so far do not wait for further ones. */
  hurry(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const lines = this.#gathered;
    this.#gathered = '';
    if (lines === '') this.#stream.flush();
    else this.#stream.write(lines);
  }

  /** Resolves when the lines so far are written. */
  async written(): Promise<void> {
    this.hurry();
    if (this.#written === this.#accepted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#awaited.push({ end: this.#accepted, resolve });
    await promise;
  }

  /** As {@link written}, but within these milliseconds. */
  async flush(milliseconds: number): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<void>();
    // Unlike the other timer, this one keeps the process alive.
    const timer = setTimeout(resolve, milliseconds);
    await Promise.race([this.written(), late]);
    clearTimeout(timer);
  }

  /** Lines that were dropped since the start. */
  get dropped(): number {
    return this.#dropped;
  }

  state(): LogState {
    const now = this.#monotonic();
    return {
      logLinesDropped: this.#droppedAt !== undefined && now - this.#droppedAt < recently,
      logStalled: this.#written < this.#accepted && now - this.#progressAt > stalledAfter,
    };
  }

  #schedule(): void {
    // A stalled reader does not keep an otherwise finished process alive.
    this.#cancelTimer ??= setTimer(() => this.hurry(), interval);
  }

  #wrote(bytes: number): void {
    this.#written += bytes;
    this.#progressAt = this.#monotonic();
    for (
      let [first] = this.#awaited;
      first !== undefined && first.end <= this.#written;
      [first] = this.#awaited
    ) {
      first.resolve();
      this.#awaited.shift();
    }
    const unreported = this.#dropped - this.#reported;
    if (this.#written < this.#accepted || unreported === 0) return;
    this.#reported = this.#dropped;
    this.onRecovery?.(unreported);
  }
}
