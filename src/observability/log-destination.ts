import { errorCode } from '../errors.ts';
import { type MonotonicClock, setTimer } from '../util/clock.ts';

/** Where lines are written. Both resolve to, or return, the number of bytes written. */
export interface Output {
  /** Does not wait for a stalled reader. */
  readonly write: (bytes: Buffer) => Promise<number>;
  /** The same, synchronously, for a process that exits. */
  readonly writeSync: (bytes: Buffer) => number;
}

interface LogDestinationOptions extends MonotonicClock {
  readonly output: Output;
  /** Maximum number of bytes that wait to be written. */
  readonly capacity?: number;
}

/** Whether log lines can be written. */
export interface LogState {
  /** Lines were dropped in the last minute. */
  readonly logLinesDropped: boolean;
  /** Lines are waiting, and nothing could be written for five seconds. */
  readonly logStalled: boolean;
}

/** The bytes of one write whose caller waits for its result, or of all between two such. */
interface Accepted {
  size: number;
  /** Bytes that are not written yet. */
  left: number;
  readonly done: ((written: number) => void) | undefined;
}

const newline = 0x0a;
/** Errors after which the same write may succeed a moment later. */
const temporary: ReadonlySet<string | undefined> = new Set(['EAGAIN', 'EINTR', 'EWOULDBLOCK']);
/** Milliseconds. */
const retryDelay = { initial: 5, max: 100 };
/** Routine lines are written together: a write costs as much CPU as the rest of a line. */
const gathering = { milliseconds: 20, bytes: 16_384 };
const recently = 60_000;
const stalledAfter = 5_000;

/**
 * Writes log lines without ever blocking: lines of {@link gathering} are written together, or those of one turn of the
 * event loop if one of them is urgent; at most `capacity` bytes wait for a stalled reader, and a line that cannot be
 * written (a full disk, a closed pipe, a full buffer) is dropped and counted. Lines are dropped whole: when a write ends
 * within a line, the rest of that line is written next, however long that takes.
 */
export class LogDestination {
  readonly #output: Output;
  readonly #monotonic: () => number;
  readonly #capacity: number;
  /** Called when lines are written again, with the number of those that were dropped. */
  onRecovery?: (lines: number) => void;
  /** Size of everything that waits. */
  #bytes = 0;
  /** Lines without a write attempt. */
  #lines = '';
  #accepted: Accepted[] = [];
  /** Bytes of the write in progress, or the rest of a partial write. */
  #current = Buffer.alloc(0);
  #attempted: Accepted[] = [];
  /** The first byte of `#current` continues a line that is partly written. */
  #withinLine = false;
  #isWriting = false;
  /** Until there is nothing to write. */
  #written: Promise<void> | undefined;
  #endGathering: (() => void) | undefined;
  #stalledSince: number | undefined;
  #dropped = 0;
  #droppedAt: number | undefined;
  #unreported = 0;

  constructor({ output, monotonic, capacity = 1_048_576 }: LogDestinationOptions) {
    this.#output = output;
    this.#monotonic = monotonic;
    this.#capacity = capacity;
  }

  /**
   * @param line ends with a line feed; several lines are accepted or dropped together
   * @param done called with the number of bytes that are written; 0 or the end of a line, if the rest was dropped
   */
  write(line: string, done?: (written: number) => void): void {
    const size = Buffer.byteLength(line);
    if (this.#bytes + size > this.#capacity) {
      this.#drop(countLines(line));
      done?.(0);
      return;
    }
    this.#bytes += size;
    this.#lines += line;
    const last = this.#accepted.at(-1);
    if (last === undefined || last.done !== undefined || done !== undefined)
      this.#accepted.push({ size, left: size, done });
    else Object.assign(last, { size: last.size + size, left: last.left + size });
    this.#written ??= this.#writeAll();
    if (done !== undefined || this.#bytes > gathering.bytes) this.hurry();
  }

  /** Lines written so far are urgent: they wait for the end of this turn of the event loop only. */
  hurry(): void {
    this.#endGathering?.();
  }

  /** Lines that were dropped since the start. */
  get dropped(): number {
    return this.#dropped;
  }

  state(): LogState {
    const now = this.#monotonic();
    return {
      logLinesDropped: this.#droppedAt !== undefined && now - this.#droppedAt < recently,
      logStalled: this.#stalledSince !== undefined && now - this.#stalledSince > stalledAfter,
    };
  }

  /** Resolves when nothing waits to be written, or after this number of milliseconds. */
  async flush(milliseconds: number): Promise<void> {
    this.hurry();
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, milliseconds);
    await Promise.race([this.#written, late]);
    clearTimeout(timer);
  }

  /**
   * Writes what waits before it returns, for a process that exits. Does not wait for a stalled reader; a write
   * in progress continues.
   */
  flushSync(): void {
    if (this.#isWriting) this.#current = Buffer.alloc(0);
    this.#takeLines();
    try {
      while (this.#current.length > 0)
        this.#current = this.#current.subarray(this.#output.writeSync(this.#current));
    } catch {
      // The process exits; there is nowhere else to report this.
    }
  }

  async #writeAll(): Promise<void> {
    await this.#gather();
    let delay = retryDelay.initial;
    for (this.#takeLines(); this.#current.length > 0; this.#takeLines()) {
      const written = await this.#attempt();
      if (written === undefined) {
        this.#failed();
        if (this.#lines === '') break;
      } else if (written > 0) {
        this.#wrote(written);
        delay = retryDelay.initial;
      } else {
        this.#stalledSince ??= this.#monotonic();
        // A stalled reader does not keep an otherwise finished process alive.
        await new Promise<void>((resolve) => setTimer(resolve, delay));
        delay = Math.min(delay * 2, retryDelay.max);
      }
    }
    this.#written = undefined;
  }

  async #gather(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, gathering.milliseconds);
    this.#endGathering = () => {
      this.#endGathering = undefined;
      clearTimeout(timer);
      setImmediate(resolve);
    };
    await promise;
    this.#endGathering = undefined;
  }

  #takeLines(): void {
    if (this.#lines === '') return;
    this.#current = Buffer.concat([this.#current, Buffer.from(this.#lines)]);
    this.#lines = '';
    this.#attempted.push(...this.#accepted.splice(0));
  }

  /** @returns the number of bytes written: 0 if the reader has stalled, `undefined` if they cannot be written */
  async #attempt(): Promise<number | undefined> {
    this.#isWriting = true;
    try {
      return await this.#output.write(this.#current);
    } catch (error) {
      return temporary.has(errorCode(error)) ? 0 : undefined;
    } finally {
      this.#isWriting = false;
    }
  }

  #wrote(count: number): void {
    this.#withinLine = this.#current[count - 1] !== newline;
    this.#current = this.#current.subarray(count);
    this.#bytes -= count;
    this.#stalledSince = undefined;
    this.#report(count);
    const lines = this.#unreported;
    this.#unreported = 0;
    if (lines > 0) this.onRecovery?.(lines);
  }

  /** Tells those whose bytes are written. */
  #report(count: number): void {
    const [first] = this.#attempted;
    if (first === undefined) return;
    first.left -= count;
    if (first.left > 0) return;
    this.#attempted.shift();
    first.done?.(first.size);
    this.#report(-first.left);
  }

  /** Keeps the rest of a partly written line for the next write. */
  #failed(): void {
    const kept = this.#withinLine ? this.#current.indexOf(newline) + 1 : 0;
    const lost = this.#current.subarray(kept);
    this.#current = this.#current.subarray(0, kept);
    this.#bytes -= lost.length;
    this.#stalledSince = undefined;
    const [first] = this.#attempted;
    if (kept > 0 && first !== undefined && kept < first.left) {
      // Its line that is partly written counts, though the rest is written next.
      first.left -= kept;
      this.#attempted.unshift({ size: kept, left: kept, done: undefined });
    }
    for (const { size, left, done } of this.#attempted.splice(kept > 0 ? 1 : 0)) done?.(size - left);
    this.#drop(countLines(lost));
  }

  #drop(lines: number): void {
    if (lines === 0) return;
    this.#dropped += lines;
    this.#unreported += lines;
    this.#droppedAt = this.#monotonic();
  }
}

function countLines(text: Buffer | string): number {
  let lines = 0;
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) lines += 1;
  return lines;
}
