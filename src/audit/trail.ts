import type { SetTimer, WallClock } from '../util/clock.ts';
import { AuditChain, type Head, type RecordKind } from './chain.ts';
import type { AuditKey } from './key.ts';

/** Where the lines of a trail go. Only one call at a time; none rejects. */
export interface AuditOutput {
  /** The newest record of an earlier start of the instance. */
  readonly before?: Earlier | undefined;
  write(lines: Buffer): Promise<WriteResult>;
  /** The name of a file, from 1, which is open; absent if there are no files. */
  nameOf?(number: number): string;
  /** What is written from now on belongs to this file. */
  begin?(file: string): Promise<void>;
  close(): Promise<void>;
}

export interface Earlier extends Head {
  readonly file: string;
}

export interface WriteResult {
  readonly written: number;
  /** Of these, bytes that are as durable as configured. */
  readonly confirmed: number;
  /** Why not everything is written and durable: an error code. */
  readonly error?: string;
}

type Fields = Readonly<Record<string, unknown>>;

interface TrailOptions extends WallClock {
  readonly key: AuditKey;
  readonly instance: string;
  readonly output: AuditOutput;
  readonly observer: {
    /** @param head the newest record that is written */
    readonly recordsWritten: (head: Head) => void;
    readonly recordsLost: (count: number) => void;
    /** Records cannot be written now; they wait as long as there is room. @param cause an error code */
    readonly writeFailed: (cause: string) => void;
  };
  /** What a start record says about the process. */
  readonly process: () => Fields;
  readonly setTimer: SetTimer;
  /** Maximum bytes of waiting records. */
  readonly capacity?: number;
  /** After so many bytes the next file begins. */
  readonly fileBytes?: number;
}

/** A record that is sealed and waits to be written. */
interface Waiting {
  readonly line: Buffer;
  readonly head: Head;
  /** Called with whether the record was written in time. Further calls have no effect. */
  readonly settle?: ((isWritten: boolean) => void) | undefined;
  /** It is the first one of this file, which is not begun yet. */
  file?: string | undefined;
}

/** Room for a gap record. */
const gapBytes = 512;
/** Milliseconds that records wait for others if no request waits for them: a write costs many times what a record does. */
const batchDelay = 5;
/** Milliseconds between attempts after a failure. */
const retryInterval = 200;
/** Milliseconds after which a write counts as failed, though it may still end. */
const stalledAfter = 1_000;

/**
 * Seals records in the order in which they come and writes them in that order; those that come during a write share the
 * next one. For what does not fit the bounded queue there is a gap record, so the chain is never broken.
 */
export class AuditTrail {
  readonly #options: Required<Omit<TrailOptions, 'key' | 'instance'>>;
  readonly #chain: AuditChain;
  readonly #waiting: Waiting[] = [];
  /** Of the records that wait. */
  #bytes = 0;
  /** Of the first one that waits: written. */
  #offset = 0;
  /** Records without a gap record. */
  #lost = 0;
  #file = { number: 1, bytes: 0 };
  /** Until nothing waits. */
  #running: Promise<void> | undefined;
  #endPause = (): void => {};
  #isWriting = false;
  #isFailing = false;
  #isClosing = false;
  #isClosed = false;

  constructor({ key, instance, ...options }: TrailOptions) {
    this.#options = { capacity: 1_048_576, fileBytes: 67_108_864, ...options };
    this.#chain = new AuditChain(key, instance);
    const { output, process } = this.#options;
    this.#seal('start', { ...process(), file: output.nameOf?.(1), before: output.before });
  }

  /** Whether records cannot be written now. */
  get failing(): boolean {
    return this.#isFailing;
  }

  /** Adds a record without waiting for the output. @returns whether there was room; if not, it is lost, and counted */
  append(kind: RecordKind, fields: Fields, settle?: Waiting['settle']): boolean {
    const { capacity, fileBytes, observer, output } = this.#options;
    if (output.nameOf !== undefined && this.#file.bytes > fileBytes) this.next();
    this.#sealGap();
    const hasRoom = !this.#isClosed && this.#lost === 0 && this.#bytes < capacity;
    if (hasRoom) this.#seal(kind, fields, settle);
    else {
      this.#lost += 1;
      observer.recordsLost(1);
    }
    if (settle !== undefined) this.#endPause();
    return hasRoom;
  }

  /** Adds a record. Resolves to whether it was written in time; if not, it may follow later. */
  async confirm(kind: RecordKind, fields: Fields): Promise<boolean> {
    if (this.#isFailing || this.#isClosed) return false;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    return this.append(kind, fields, resolve) && promise;
  }

  /** Begins the next file, if there are files. @param key for the records from here on */
  next(key = this.#chain.key): void {
    const { output, process } = this.#options;
    this.#chain.key = key;
    this.#file = { number: this.#file.number + 1, bytes: 0 };
    const file = output.nameOf?.(this.#file.number);
    this.#seal('start', { ...process(), continued: true, file }, undefined, file);
  }

  /** Writes everything, and a stop record. @returns the number of records that could not be written in these milliseconds */
  async close(milliseconds: number): Promise<number> {
    this.append('stop', {});
    this.#isClosing = true;
    this.#endPause();
    const { promise: late, resolve } = Promise.withResolvers<void>();
    // Unlike the other timers, this one keeps the process alive.
    const timer = setTimeout(resolve, milliseconds);
    await Promise.race([this.#running, late]);
    clearTimeout(timer);
    this.#isClosed = true;
    this.#rejectAwaited();
    const unwritten = this.#waiting.length;
    if (unwritten > 0) this.#options.observer.recordsLost(unwritten);
    // A file in use by a write that hangs cannot be closed.
    if (!this.#isWriting) await this.#options.output.close();
    return unwritten;
  }

  #seal(kind: RecordKind, fields: Fields, settle?: Waiting['settle'], file?: string): void {
    const time = new Date(this.#options.clock()).toISOString();
    const members = JSON.stringify({ time, ...fields }).slice(1, -1);
    const line = Buffer.from(this.#chain.seal(kind, members));
    this.#waiting.push({ line, head: this.#chain.head, settle, file });
    this.#bytes += line.length;
    this.#file.bytes += line.length;
    this.#running ??= this.#run();
  }

  #sealGap(): void {
    if (this.#lost === 0 || this.#bytes + gapBytes > this.#options.capacity) return;
    this.#seal('gap', { lost: this.#lost });
    this.#lost = 0;
  }

  async #run(): Promise<void> {
    await this.#pause(batchDelay);
    for (let [first] = this.#waiting; first !== undefined && !this.#isClosed; [first] = this.#waiting) {
      this.#isWriting = true;
      const cancelTimer = this.#options.setTimer(() => this.#failed('timeout'), stalledAfter);
      const error = await this.#writeFrom(first);
      cancelTimer();
      this.#isWriting = false;
      this.#isFailing = false;
      if (this.#isClosed) return;
      if (error === undefined) this.#sealGap();
      else {
        this.#failed(error);
        if (this.#isClosing) break;
        await this.#pause(retryInterval);
      }
    }
    this.#isFailing = false;
    this.#running = undefined;
  }

  /** Ends with this turn of the event loop when a request waits, or after these milliseconds. */
  #pause(milliseconds: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancelTimer = this.#options.setTimer(resolve, milliseconds);
    this.#endPause = () => {
      cancelTimer();
      setImmediate(resolve);
    };
    return promise;
  }

  /** Writes what waits for this file. @returns why not everything was written: an error code */
  async #writeFrom(first: Waiting): Promise<string | undefined> {
    const { output } = this.#options;
    if (first.file !== undefined) await output.begin?.(first.file);
    first.file = undefined;
    const next = this.#waiting.findIndex(({ file }) => file !== undefined);
    const lines = this.#waiting.slice(0, next === -1 ? undefined : next).map(({ line }) => line);
    const result = await output.write(Buffer.concat(lines).subarray(this.#offset));
    this.#wrote(result);
    return result.error;
  }

  #wrote({ written, confirmed }: WriteResult): void {
    const before = this.#offset;
    let [count, end] = [0, 0];
    for (const { line, settle } of this.#waiting) {
      if (end + line.length > before + written) break;
      end += line.length;
      count += 1;
      settle?.(end <= before + confirmed);
    }
    this.#offset = before + written - end;
    this.#bytes -= end;
    const newest = this.#waiting.splice(0, count).at(-1);
    if (newest !== undefined) this.#options.observer.recordsWritten(newest.head);
  }

  #failed(cause: string): void {
    this.#isFailing = true;
    this.#rejectAwaited();
    this.#options.observer.writeFailed(cause);
  }

  #rejectAwaited(): void {
    for (const { settle } of this.#waiting) settle?.(false);
  }
}
