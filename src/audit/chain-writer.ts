import type { AuditChain, Head } from './chain.ts';
import type { AuditKey } from './key.ts';
import type { AuditOutput, WriteResult } from './output.ts';
import type { PendingRecord } from './pending-records.ts';

const nothing = Buffer.alloc(0);

/** A record that is partly written. */
interface PartialRecord {
  readonly record: PendingRecord;
  /** The head without it. */
  readonly before: Head;
}

export interface Written {
  /** Records that have their place in the chain now. */
  readonly count: number;
  /** Records that were not written; they can be written later. */
  readonly unwritten: readonly PendingRecord[];
  readonly error?: string | undefined;
}

/**
 * Seals records and writes them. After a failure the chain ends with the last record that is at least partly written; the
 * rest of that one is written first, next time.
 */
export class ChainWriter {
  readonly #chain: AuditChain;
  readonly #output: AuditOutput;
  #rest: Buffer;
  /** The record whose rest is not written yet. */
  #partial: PartialRecord | undefined;

  /** @param rest what ends a line that an earlier process left incomplete */
  constructor(chain: AuditChain, output: AuditOutput, rest: Buffer) {
    this.#chain = chain;
    this.#output = output;
    this.#rest = rest;
  }

  get head(): Head {
    return this.#chain.head;
  }

  useKey(key: AuditKey): void {
    this.#chain.useKey(key);
  }

  /**
   * Follows a file that was renamed or removed.
   *
   * @returns whether there is a new file, and the record that ended incomplete in the old one
   * @throws Error of node:fs
   */
  async refresh(): Promise<{ isNew: boolean; lost?: PendingRecord }> {
    if (!(await this.#output.refresh())) return { isNew: false };
    // A record that lacks only its line feed is whole.
    const partial = this.#rest.length > 1 ? this.#partial : undefined;
    this.#setRest(nothing);
    if (partial === undefined) return { isNew: true };
    this.#chain.rewind(partial.before);
    return { isNew: true, lost: partial.record };
  }

  async write(records: readonly PendingRecord[]): Promise<Written> {
    const before = this.#chain.head;
    const lines = this.#seal(records);
    const bytes = Buffer.concat([this.#rest, Buffer.from(lines.join(''))]);
    const result = await this.#output.write(bytes);
    if (result.error === undefined) {
      this.#setRest(nothing);
      for (const { settle } of records) settle?.(true);
      return { count: records.length, unwritten: [] };
    }
    return this.#continueAfter(result, records, lines, bytes, before);
  }

  close(): Promise<void> {
    return this.#output.close();
  }

  #seal(records: readonly PendingRecord[]): string[] {
    return records.map(({ kind, fields }) => this.#chain.seal(kind, fields));
  }

  #continueAfter(
    { written, confirmed, error }: WriteResult,
    records: readonly PendingRecord[],
    lines: readonly string[],
    bytes: Buffer,
    before: Head,
  ): Written {
    let end = this.#rest.length;
    let begun = 0;
    for (; begun < lines.length && end < written; begun += 1) {
      end += Buffer.byteLength(lines[begun] ?? '');
      records[begun]?.settle?.(end <= confirmed);
    }
    const isPartial = end > written && begun > 0;
    // Sealing the same records again gives the same lines.
    this.#chain.rewind(before);
    this.#seal(records.slice(0, isPartial ? begun - 1 : begun));
    const last = isPartial ? records[begun - 1] : undefined;
    const earlier = written < end ? this.#partial : undefined;
    const partial = last === undefined ? earlier : { record: last, before: this.#chain.head };
    if (last !== undefined) this.#seal([last]);
    this.#setRest(bytes.subarray(written, end), partial);
    return { count: begun, unwritten: records.slice(begun), error };
  }

  #setRest(rest: Buffer, partial?: PartialRecord): void {
    this.#rest = rest;
    this.#partial = partial;
  }
}
