import { errorCode } from '../errors.ts';
import type { SetTimer, WallClock } from '../util/clock.ts';
import { AuditChain, type Head, type RecordKind } from './chain.ts';
import { type AuditOutput, ChainWriter, type PendingRecord, PendingRecords } from './chain-writer.ts';
import type { AuditKey } from './key.ts';
import type { Tail } from './tail.ts';

type Fields = Readonly<Record<string, unknown>>;

interface TrailOptions extends WallClock {
  readonly key: AuditKey;
  readonly instance: string;
  readonly output: AuditOutput;
  /** The last record of an earlier process, and what it left after that. */
  readonly tail?: Tail;
  readonly observer: {
    /** @param head the newest record that is at least partly written */
    readonly recordsWritten: (count: number, head: Head) => void;
    readonly recordsLost: (count: number) => void;
    /** Records cannot be written now; they wait as long as there is room. @param cause an error code */
    readonly writeFailed: (cause: string) => void;
  };
  /** What a start record says about the process. */
  readonly process: () => Fields;
  readonly setTimer: SetTimer;
  /** Maximum bytes of waiting records. Default: 1 MiB. */
  readonly capacity?: number;
}

const maxBatchBytes = 262_144;
/** Milliseconds that records wait for others if no request waits for them: a write costs many times what a record does. */
const batchDelay = 5;
/** Milliseconds between attempts after a failure. */
const retryInterval = 200;
/** Milliseconds after which a write counts as failed, though it may still end. */
const stalledAfter = 1_000;

/**
 * Writes records in the order in which they were appended; those that arrive during a write share the next one. A record
 * gets its sequence number and MAC when it is written, so the chain consists of written records only: what could not be
 * written leaves a gap record, never a broken chain.
 */
export class AuditTrail {
  readonly #options: TrailOptions;
  readonly #chain: AuditChain;
  readonly #writer: ChainWriter;
  readonly #pending: PendingRecords;
  #inFlight: readonly PendingRecord[] = [];
  #state: 'idle' | 'delayed' | 'scheduled' | 'writing' | 'waiting' | 'closed' = 'idle';
  #closing: PromiseWithResolvers<void> | undefined;
  #stalled = false;
  /** Of the next run, or of the write that runs. */
  #cancelTimer: () => void = () => {};
  /** For later records. */
  #key: AuditKey;
  #refreshing = false;

  constructor(options: TrailOptions) {
    const { key, instance, output, tail = { isOpen: false }, capacity = 1_048_576 } = options;
    this.#options = options;
    this.#key = key;
    this.#chain = new AuditChain(key, instance, tail.last?.record);
    this.#writer = new ChainWriter(this.#chain, output, tail);
    this.#pending = new PendingRecords(capacity, (lost) => this.#members({ lost }));
    const { damaged } = tail;
    this.append('start', {
      ...options.process(),
      ...(damaged === undefined ? this.#writer.torn : { damaged }),
    });
  }

  /** Whether records cannot be written now. */
  get failing(): boolean {
    return this.#state === 'waiting' || this.#stalled;
  }

  /** Adds a record without waiting for the output. It is lost, and counted, if too many are waiting. */
  append(kind: RecordKind, fields: Fields): void {
    const record = { kind, fields: this.#members(fields) };
    if (this.#state === 'closed' || !this.#pending.add(record)) this.#lose(1);
    this.#schedule(batchDelay);
  }

  /** Adds a record. Resolves to whether it was written; if not, it is left out or follows later. */
  async confirm(kind: RecordKind, fields: Fields): Promise<boolean> {
    if (this.failing || this.#state === 'closed') return false;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    if (!this.#pending.add({ kind, fields: this.#members(fields), settle: resolve })) return false;
    this.#schedule(0);
    return promise;
  }

  /** Follows a file that was renamed, even if no record waits. @param key for later records */
  refresh(key = this.#key): void {
    this.#key = key;
    this.#refreshing = true;
    this.#schedule(0);
  }

  /** Writes everything, and a stop record. @returns the number of records that could not be written in these milliseconds */
  async close(milliseconds: number): Promise<number> {
    this.append('stop', {});
    this.#closing = Promise.withResolvers();
    // Unlike the other timers, this one keeps the process alive.
    const timer = setTimeout(this.#closing.resolve, milliseconds);
    if (this.#state === 'waiting') void this.#run();
    else this.#schedule(0);
    await this.#closing.promise;
    clearTimeout(timer);
    this.#cancelTimer();
    const isStuck = this.#state === 'writing';
    this.#state = 'closed';
    const unwritten = this.#pending.size + this.#inFlight.length;
    if (unwritten > 0) this.#options.observer.recordsLost(unwritten);
    this.#rejectAwaited();
    // A file in use by a write that hangs cannot be closed.
    if (!isStuck) await this.#options.output.close();
    return unwritten;
  }

  /** As JSON without braces. */
  #members(fields: Fields): string {
    const time = new Date(this.#options.clock()).toISOString();
    return JSON.stringify({ time, ...fields }).slice(1, -1);
  }

  #lose(count: number): void {
    this.#pending.lose(count);
    this.#options.observer.recordsLost(count);
  }

  /** @param delay milliseconds; 0 also ends a longer delay */
  #schedule(delay: number): void {
    if (this.#state !== 'idle' && (this.#state !== 'delayed' || delay > 0)) return;
    this.#cancelTimer();
    this.#state = delay > 0 ? 'delayed' : 'scheduled';
    if (delay > 0) this.#runIn(delay);
    else setImmediate(() => void this.#run());
  }

  /** @param delay milliseconds */
  #runIn(delay: number): void {
    this.#cancelTimer = this.#options.setTimer(() => void this.#run(), delay);
  }

  async #run(): Promise<void> {
    if (this.#isClosed()) return;
    this.#cancelTimer();
    this.#state = 'writing';
    while (this.#pending.size > 0 || this.#refreshing) {
      this.#cancelTimer = this.#options.setTimer(() => this.#stall(), stalledAfter);
      const error = await this.#writeBatch().catch(causeOf);
      this.#cancelTimer();
      this.#stalled = false;
      if (this.#isClosed()) return;
      if (error !== undefined) return this.#failed(error);
    }
    this.#state = 'idle';
    this.#closing?.resolve();
  }

  /** Also called where TypeScript cannot see that the state changed during a write. */
  #isClosed(): boolean {
    return this.#state === 'closed';
  }

  /** @returns why not everything was written: an error code @throws Error of node:fs */
  async #writeBatch(): Promise<string | undefined> {
    await this.#addStartRecord();
    this.#refreshing = false;
    if (this.#pending.size === 0) return undefined;
    this.#inFlight = this.#pending.take(maxBatchBytes);
    const { count, unwritten, error } = await this.#writer.write(this.#inFlight);
    this.#inFlight = [];
    this.#pending.addFirst(unwritten);
    if (count > 0) this.#options.observer.recordsWritten(count, this.#chain.head);
    return error;
  }

  /** If the next record is the first of another file or with another key. @throws Error of node:fs */
  async #addStartRecord(): Promise<void> {
    const { isNew, lost } = await this.#writer.refresh(this.#refreshing);
    if (lost?.lost !== undefined) this.#pending.lose(lost.lost);
    else if (lost !== undefined) this.#lose(1);
    if (!isNew && this.#key.id === this.#chain.key.id) return;
    this.#chain.key = this.#key;
    if (this.#pending.first?.kind === 'start') return;
    // The same process begins another file or uses another key.
    const fields = { ...this.#options.process(), continued: true, ...this.#writer.torn };
    this.#pending.addFirst([{ kind: 'start', fields: this.#members(fields) }]);
  }

  #stall(): void {
    this.#stalled = true;
    this.#rejectAwaited();
    this.#options.observer.writeFailed('timeout');
  }

  /** Those in a write that hangs may still be written. */
  #rejectAwaited(): void {
    for (const { settle } of this.#inFlight) settle?.(false);
    this.#pending.rejectAwaited();
  }

  #failed(cause: string): void {
    this.#state = 'waiting';
    this.#rejectAwaited();
    this.#options.observer.writeFailed(cause);
    if (this.#closing !== undefined) this.#closing.resolve();
    else this.#runIn(retryInterval);
  }
}

/** An error without a code is one of our own, whose message says what to do. */
function causeOf(failure: unknown): string {
  return errorCode(failure) ?? (failure instanceof Error ? failure.message : 'other');
}
