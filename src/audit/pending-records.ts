import type { RecordKind } from './chain.ts';

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
  #bytes = 0;
  /** Lost after the last record. */
  #lost = 0;

  /** @param capacity bytes @param gapFields members of a gap record */
  constructor(capacity: number, gapFields: (lost: number) => string) {
    this.#capacity = capacity;
    this.#gapFields = gapFields;
  }

  get size(): number {
    return this.#records.length + (this.#lost > 0 ? 1 : 0);
  }

  get first(): PendingRecord | undefined {
    return this.#records[0];
  }

  /** @returns whether there was room */
  add(record: PendingRecord): boolean {
    if (this.#bytes + sizeOf(record) > this.#capacity) return false;
    this.#closeGap();
    this.#push(record);
    return true;
  }

  /** Before all others, whether there is room or not. */
  addFirst(records: readonly PendingRecord[]): void {
    this.#records = [...records, ...this.#records];
    for (const record of records) this.#bytes += sizeOf(record);
  }

  lose(count: number): void {
    this.#lost += count;
  }

  /** Removes records from the front, up to the given number of bytes, but at least one. */
  take(maxBytes: number): PendingRecord[] {
    if (this.#records.length === 0) this.#closeGap();
    let [count, bytes] = [0, 0];
    while (count < this.#records.length && (count === 0 || bytes < maxBytes)) {
      bytes += sizeOf(this.#records[count]);
      count += 1;
    }
    this.#bytes -= bytes;
    return this.#records.splice(0, count);
  }

  /** Removes the records that a request waits for. */
  rejectAwaited(): void {
    const awaited = this.#records.filter(({ settle }) => settle !== undefined);
    this.#records = this.#records.filter(({ settle }) => settle === undefined);
    for (const record of awaited) {
      this.#bytes -= sizeOf(record);
      record.settle?.(false);
    }
  }

  #closeGap(): void {
    if (this.#lost === 0) return;
    this.#push({ kind: 'gap', fields: this.#gapFields(this.#lost), lost: this.#lost });
    this.#lost = 0;
  }

  #push(record: PendingRecord): void {
    this.#records.push(record);
    this.#bytes += sizeOf(record);
  }
}

function sizeOf(record: PendingRecord | undefined): number {
  return record === undefined ? 0 : record.fields.length + overhead;
}
