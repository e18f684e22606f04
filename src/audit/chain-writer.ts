import { type AuditChain, type Head, type RecordKind, TornBytes } from './chain.ts';
import type { Tail } from './tail.ts';

export interface WriteResult {
  /** Bytes that were written. If they end within a line, the rest of that line has to be written next. */
  readonly written: number;
  /** Of these, bytes that are as durable as configured. */
  readonly confirmed: number;
  /** Why not everything is written and durable: an error code. */
  readonly error?: string;
}

/** Where the lines of an audit trail go. Only one call at a time. */
export interface AuditOutput {
  write(lines: Buffer): Promise<WriteResult>;
  /**
   * To be called before a write.
   *
   * @param now looks at the file whenever it was looked at last
   * @returns whether the next line is the first of another file
   * @throws Error of node:fs
   */
  refresh(now?: boolean): Promise<boolean>;
  close(): Promise<void>;
}

export interface PendingRecord {
  readonly kind: RecordKind;
  /** Members of the record, as JSON without braces. */
  readonly fields: string;
  /** Of a gap record: the number of records whose place it takes. */
  readonly lost?: number;
  /** Called with whether the record was written. Further calls have no effect. */
  readonly settle?: (recorded: boolean) => void;
}

/** Roughly what a record has besides its fields. */
const overhead = 256;

/** The records that wait to be written, in order and bounded. Where some had to be dropped, a gap record takes their place. */
export class PendingRecords {
  readonly #capacity: number;
  readonly #gapFields: (lost: number) => string;
  #records: PendingRecord[] = [];

  /** @param capacity bytes @param gapFields members of a gap record */
  constructor(capacity: number, gapFields: (lost: number) => string) {
    this.#capacity = capacity;
    this.#gapFields = gapFields;
  }

  get size(): number {
    return this.#records.length;
  }

  get first(): PendingRecord | undefined {
    return this.#records[0];
  }

  /** @returns whether there was room */
  add(record: PendingRecord): boolean {
    const waiting = this.#records.reduce((bytes, one) => bytes + sizeOf(one), 0);
    if (waiting + sizeOf(record) > this.#capacity) return false;
    this.#records.push(record);
    return true;
  }

  /** Before all others, whether there is room or not. */
  addFirst(records: readonly PendingRecord[]): void {
    this.#records = [...records, ...this.#records];
  }

  lose(count: number): void {
    const before = this.#records.at(-1)?.lost;
    if (before !== undefined) this.#records.pop();
    const lost = count + (before ?? 0);
    this.#records.push({ kind: 'gap', fields: this.#gapFields(lost), lost });
  }

  /** Removes records from the front, up to the given number of bytes, but at least one. */
  take(maxBytes: number): PendingRecord[] {
    let [count, bytes] = [0, 0];
    for (const record of this.#records) {
      if (bytes >= maxBytes) break;
      bytes += sizeOf(record);
      count += 1;
    }
    return this.#records.splice(0, count);
  }

  /** Removes the records that a request waits for. */
  rejectAwaited(): void {
    for (const { settle } of this.#records) settle?.(false);
    this.#records = this.#records.filter(({ settle }) => settle === undefined);
  }
}

const lineFeed = Buffer.from('\n');

/** A record with its place in the chain. */
interface SealedRecord {
  readonly record: PendingRecord;
  readonly line: Buffer;
  /** The head without it. */
  readonly before: Head;
}

/**
 * Seals records and writes them. After a failure the chain ends with the last record that is at least partly written; the
 * rest of that one is written first, next time.
 */
export class ChainWriter {
  readonly #chain: AuditChain;
  readonly #output: AuditOutput;
  #rest: Buffer;
  #torn: TornBytes | undefined;
  /** Between those bytes and the next record there is, or will be, a line feed. */
  #isFed = true;
  /** The record whose rest is not written yet. */
  #partial: SealedRecord | undefined;

  /** @param tail what an earlier process left after its last record */
  constructor(chain: AuditChain, output: AuditOutput, { torn, isOpen }: Pick<Tail, 'torn' | 'isOpen'>) {
    this.#chain = chain;
    this.#output = output;
    this.#rest = Buffer.from(isOpen ? '\n' : '');
    this.#torn = torn;
  }

  /** What is left after the last whole record: the next one has to be a start record that says so. */
  get torn() {
    return this.#torn?.fields;
  }

  /**
   * Follows a file that was renamed or removed.
   *
   * @returns whether there is a new file, and the record that ended incomplete in the old one
   * @throws Error of node:fs
   */
  async refresh(now: boolean): Promise<{ isNew: boolean; lost?: PendingRecord }> {
    if (!(await this.#output.refresh(now))) return { isNew: false };
    // A record that lacks only its line feed is whole.
    const unwritten = this.#rest.length;
    const partial = unwritten > 1 ? this.#partial : undefined;
    if (unwritten === 1 && this.#partial !== undefined) this.#torn = undefined;
    this.#rest = Buffer.alloc(0);
    this.#partial = undefined;
    if (partial === undefined) return { isNew: true };
    this.#chain.head = partial.before;
    if (this.#torn === undefined) this.#torn = new TornBytes();
    else if (this.#isFed) this.#torn.add(lineFeed);
    this.#torn.add(partial.line.subarray(0, -unwritten));
    this.#isFed = false;
    return { isNew: true, lost: partial.record };
  }

  /**
   * @returns the number of records that have their place in the chain now, those that can be written later, and why there
   *   are any
   */
  async write(records: readonly PendingRecord[]) {
    const sealed = records.map((record): SealedRecord => {
      const before = this.#chain.head;
      return { record, before, line: Buffer.from(this.#chain.seal(record.kind, record.fields)) };
    });
    const bytes = Buffer.concat([this.#rest, ...sealed.map(({ line }) => line)]);
    const { written, confirmed, error } = await this.#output.write(bytes);
    if (this.#partial !== undefined && written >= this.#rest.length) this.#torn = undefined;
    let end = this.#rest.length;
    let count = 0;
    for (const { record, line } of sealed) {
      if (end >= written) break;
      end += line.length;
      count += 1;
      record.settle?.(end <= confirmed);
      if (end <= written) this.#torn = undefined;
    }
    if (end <= written) this.#partial = undefined;
    else if (count > 0) this.#partial = sealed[count - 1];
    this.#chain.head = sealed[count]?.before ?? this.#chain.head;
    this.#rest = bytes.subarray(written, end);
    return { count, unwritten: records.slice(count), error };
  }
}

function sizeOf({ fields }: PendingRecord): number {
  return fields.length + overhead;
}
