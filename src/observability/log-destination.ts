/** Hands bytes to the operating system without waiting; reports how many it took, or the error. */
export type Write = (bytes: Buffer, done: (error: WriteError | undefined, written: number) => void) => void;

export interface WriteError extends Error {
  readonly code?: string | undefined;
}

/** Where the lines go. */
export interface Output {
  readonly write: Write;
  /** The same at once, for a process that exits. @throws WriteError */
  readonly writeSync: (bytes: Buffer) => number;
}

export interface LogDestinationPorts {
  readonly output: Output;
  /** Milliseconds, never set back. */
  readonly monotonic: () => number;
  /** Bytes that may wait to be written. */
  readonly capacity?: number;
}

/** How the log lines fare. */
export interface LogState {
  /** Lines were dropped in the last five minutes. */
  readonly logLinesDropped: boolean;
  /** Lines wait, and for five seconds nothing could be written. */
  readonly logStalled: boolean;
}

export interface DeliveryListener {
  /** So many lines were dropped, each of them whole. */
  readonly dropped?: (lines: number) => void;
  /** Lines are written again, after so many were dropped. */
  readonly recovered?: (lines: number) => void;
}

const newline = 0x0a;
const nothing = Buffer.alloc(0);
/** Errors after which the same write may succeed a moment later. */
const temporary: ReadonlySet<string> = new Set(['EAGAIN', 'EINTR', 'EWOULDBLOCK']);
/** Milliseconds. */
const retry = { first: 5, longest: 100 };
const recently = 300_000;
const stalledAfter = 5_000;

/**
 * Takes log lines without ever waiting for where they go: lines of one turn of the event loop are written together,
 * at most `capacity` bytes wait for a reader that stalls, and a line that cannot be written (a full disk, a closed
 * pipe, a full buffer) is dropped and counted. Lines are dropped whole: when a write ends within a line, the rest of
 * that line is the next to be written, however long that takes.
 */
export class LogDestination {
  readonly #output: Output;
  readonly #monotonic: () => number;
  readonly #capacity: number;
  readonly #listeners: DeliveryListener[] = [];
  /** Lines that no write has been tried for, and the size of all that waits. */
  #lines: string[] = [];
  #bytes = 0;
  /** Bytes of the write in progress, or what is left of one that ended early. */
  #current: Buffer = nothing;
  /** The first byte of `current` continues a line of which the beginning is written. */
  #withinLine = false;
  #state: 'idle' | 'scheduled' | 'writing' = 'idle';
  #retryDelay = retry.first;
  #stalledSince: number | undefined;
  #dropped = 0;
  #droppedAt: number | undefined;
  #unreported = 0;
  #waiting: (() => void)[] = [];

  constructor({ output, monotonic, capacity = 1_048_576 }: LogDestinationPorts) {
    this.#output = output;
    this.#monotonic = monotonic;
    this.#capacity = capacity;
  }

  /** @param line ends in a line feed; several lines are kept or dropped together */
  write(line: string): void {
    const size = Buffer.byteLength(line);
    if (this.#bytes + size > this.#capacity) {
      this.#drop(countLines(line));
      return;
    }
    this.#lines.push(line);
    this.#bytes += size;
    if (this.#state === 'idle') this.#schedule();
  }

  /** Notifies the listener of what happens from now on, and of how many lines were dropped before. */
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

  /** Resolves when nothing waits any more, or after so many milliseconds. */
  async flush(milliseconds: number): Promise<void> {
    if (this.#state === 'idle') return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, milliseconds);
    this.#waiting.push(resolve);
    await promise;
    clearTimeout(timer);
  }

  /**
   * Writes what waits before it returns, for a process that exits. Does not wait for a reader that stalls; a write
   * in progress ends by itself.
   */
  flushSync(): void {
    const begun = this.#state === 'writing' ? nothing : this.#current;
    const left = Buffer.concat([begun, ...this.#takeLines()]);
    try {
      for (let at = 0; at < left.length; ) at += this.#output.writeSync(left.subarray(at));
    } catch {
      // The process exits, and there is no other place to report this.
    }
  }

  #schedule(): void {
    this.#state = 'scheduled';
    setImmediate(() => this.#next());
  }

  #next(): void {
    const lines = this.#takeLines();
    if (lines.length > 0) this.#current = Buffer.concat([this.#current, ...lines]);
    if (this.#current.length === 0) {
      this.#rest();
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
    this.#retryDelay = retry.first;
    this.#stalledSince = undefined;
    this.#reportRecovery();
    this.#next();
  }

  #retryLater(): void {
    this.#state = 'scheduled';
    this.#stalledSince ??= this.#monotonic();
    // A process that has nothing else to do does not stay for a reader that stalls.
    setTimeout(() => this.#next(), this.#retryDelay).unref();
    this.#retryDelay = Math.min(this.#retryDelay * 2, retry.longest);
  }

  /** The rest of a line that is partly written stays for the next write, whenever there is one. */
  #failed(): void {
    const end = this.#withinLine ? this.#current.indexOf(newline) + 1 : 0;
    const lost = this.#current.subarray(end);
    this.#current = this.#current.subarray(0, end);
    this.#bytes -= lost.length;
    this.#stalledSince = undefined;
    this.#drop(countLines(lost));
    if (this.#lines.length > 0) this.#schedule();
    else this.#rest();
  }

  #rest(): void {
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
