/** A write whose caller waits for its result, as a range of all bytes that were not dropped. */
interface AwaitedWrite {
  start: number;
  end: number;
  readonly done: (written: number) => void;
}

/** Finds out which of the lines that were joined for one write are written, and which were dropped. */
export class AwaitedWrites {
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
