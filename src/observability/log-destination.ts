import type { MonotonicClock } from '../util/clock.ts';

/** A write whose caller waits for its result, as a range of all bytes that were not dropped. */
interface AwaitedWrite {
  start: number;
  end: number;
  readonly done: (written: number) => void;
}

/** Passes bytes to the operating system without waiting; reports how many were written, or the error. */
type Write = (bytes: Buffer, done: (error: WriteError | undefined, written: number) => void) => void;

export interface WriteError extends Error {
  readonly code?: string | undefined;
}

export interface Output {
  readonly write: Write;
  /** The same, synchronously, for a process that exits. @throws WriteError */
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

interface DeliveryListener {
  /** This number of lines was dropped. */
  readonly dropped?: (lines: number) => void;
  /** Lines are written again, after this number was dropped. */
  readonly recovered?: (lines: number) => void;
}

const newline = 0x0a;
const nothing = Buffer.alloc(0);
/** Errors after which the same write may succeed a moment later. */
const temporary: ReadonlySet<string> = new Set(['EAGAIN', 'EINTR', 'EWOULDBLOCK']);
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
  readonly #listeners: DeliveryListener[] = [];
  /** Lines without a write attempt, and the size of everything that waits. */
  #lines: string[] = [];
  #bytes = 0;
  /** Bytes of the write in progress, or the rest of a partial write. */
  #current: Buffer = nothing;
  /** The first byte of `#current` continues a line that is partly written. */
  #withinLine = false;
  #state: 'idle' | 'gathering' | 'scheduled' | 'writing' = 'idle';
  #gatherTimer: NodeJS.Timeout | undefined;
  #retryDelay = retryDelay.initial;
  #stalledSince: number | undefined;
  #dropped = 0;
  #droppedAt: number | undefined;
  #unreported = 0;
  #waiting: (() => void)[] = [];
  readonly #awaited = new AwaitedWrites();

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
    this.#awaited.accept(size, done);
    this.#lines.push(line);
    this.#bytes += size;
    if (this.#state === 'idle') this.#gather();
    if (done !== undefined || this.#bytes > gathering.bytes) this.hurry();
  }

  /** Lines written so far are urgent: they wait for the end of this turn of the event loop only. */
  hurry(): void {
    if (this.#state !== 'gathering') return;
    clearTimeout(this.#gatherTimer);
    this.#schedule();
  }

  /** Notifies the listener of later events, and of the number of lines dropped before. */
  watch(listener: DeliveryListener): void {
    this.#listeners.push(listener);
    if (this.#dropped > 0) listener.dropped?.(this.#dropped);
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
    if (this.#state === 'idle') return;
    this.hurry();
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, milliseconds);
    this.#waiting.push(resolve);
    await promise;
    clearTimeout(timer);
  }

  /**
   * Writes what waits before it returns, for a process that exits. Does not wait for a stalled reader; a write
   * in progress continues.
   */
  flushSync(): void {
    const unfinished = this.#state === 'writing' ? nothing : this.#current;
    const remaining = Buffer.concat([unfinished, ...this.#takeLines()]);
    try {
      for (let at = 0; at < remaining.length; ) at += this.#output.writeSync(remaining.subarray(at));
    } catch {
      // The process exits; there is nowhere else to report this.
    }
  }

  #gather(): void {
    this.#state = 'gathering';
    this.#gatherTimer = setTimeout(() => this.#next(), gathering.milliseconds);
  }

  #schedule(): void {
    this.#state = 'scheduled';
    setImmediate(() => this.#next());
  }

  #next(): void {
    const lines = this.#takeLines();
    if (lines.length > 0) this.#current = Buffer.concat([this.#current, ...lines]);
    if (this.#current.length === 0) {
      this.#becomeIdle();
      return;
    }
    this.#state = 'writing';
    this.#output.write(this.#current, (error, written) => {
      if (error === undefined && written > 0) this.#wrote(written);
      else if (error === undefined || temporary.has(error.code ?? '')) this.#retryLater();
      else this.#failed();
    });
  }

  #wrote(count: number): void {
    this.#withinLine = this.#current[count - 1] !== newline;
    this.#current = this.#current.subarray(count);
    this.#bytes -= count;
    this.#awaited.written(count);
    this.#retryDelay = retryDelay.initial;
    this.#stalledSince = undefined;
    this.#reportRecovery();
    this.#next();
  }

  #retryLater(): void {
    this.#state = 'scheduled';
    this.#stalledSince ??= this.#monotonic();
    // A stalled reader does not keep an otherwise finished process alive.
    setTimeout(() => this.#next(), this.#retryDelay).unref();
    this.#retryDelay = Math.min(this.#retryDelay * 2, retryDelay.max);
  }

  /** Keeps the rest of a partly written line for the next write. */
  #failed(): void {
    const end = this.#withinLine ? this.#current.indexOf(newline) + 1 : 0;
    const lost = this.#current.subarray(end);
    this.#current = this.#current.subarray(0, end);
    this.#bytes -= lost.length;
    this.#awaited.lost(end, lost.length);
    this.#stalledSince = undefined;
    this.#drop(countLines(lost));
    if (this.#lines.length > 0) this.#schedule();
    else this.#becomeIdle();
  }

  #becomeIdle(): void {
    this.#state = 'idle';
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  #takeLines(): Buffer[] {
    if (this.#lines.length === 0) return [];
    const bytes = Buffer.from(this.#lines.join(''));
    this.#lines = [];
    return [bytes];
  }

  #drop(lines: number): void {
    if (lines === 0) return;
    this.#dropped += lines;
    this.#unreported += lines;
    this.#droppedAt = this.#monotonic();
    for (const listener of this.#listeners) listener.dropped?.(lines);
  }

  #reportRecovery(): void {
    if (this.#unreported === 0) return;
    const lines = this.#unreported;
    this.#unreported = 0;
    for (const listener of this.#listeners) listener.recovered?.(lines);
  }
}

function countLines(text: Buffer | string): number {
  let lines = 0;
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) lines += 1;
  return lines;
}

/** Finds out which of the lines that were joined for one write are written, and which were dropped. */
class AwaitedWrites {
  #writes: AwaitedWrite[] = [];
  /** Positions of the first byte that is not written, and after the last accepted one. */
  #position = 0;
  #end = 0;

  /** @param done called with the number of bytes that are written; 0 or the end of a line, if the rest was dropped */
  accept(size: number, done: ((written: number) => void) | undefined): void {
    if (done !== undefined) this.#writes.push({ start: this.#end, end: this.#end + size, done });
    this.#end += size;
  }

  written(count: number): void {
    this.#position += count;
    if (this.#writes.length === 0) return;
    const written = this.#writes.filter(({ end }) => end <= this.#position);
    this.#writes = this.#writes.filter(({ end }) => end > this.#position);
    for (const { start, end, done } of written) done(end - start);
  }

  /**
   * Lines behind the lost bytes take their positions. A line that is partly written counts: its rest is written next.
   *
   * @param offset of the first lost byte behind what is written
   */
  lost(offset: number, count: number): void {
    const from = this.#position + offset;
    this.#end -= count;
    const isAffected = ({ start, end }: AwaitedWrite): boolean => end > from && start < from + count;
    const affected = this.#writes.filter(isAffected);
    this.#writes = this.#writes.filter((write) => !isAffected(write));
    for (const write of this.#writes.filter(({ start }) => start >= from + count)) {
      write.start -= count;
      write.end -= count;
    }
    for (const { start, done } of affected) done(Math.max(0, from - start));
  }
}
