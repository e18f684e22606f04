import { createHash, type Hash } from 'node:crypto';
import { type AuditRecord, genesis, type Head, isGenuine, parseRecord } from './chain.ts';
import {
  describeDamage,
  describeFirst,
  describeKey,
  describeMisplaced,
  describeMissingHead,
  describeOtherHead,
} from './defects.ts';
import type { AuditKey } from './key.ts';
import { isCutRecord } from './torn-line.ts';
import { TrailSummary } from './trail-summary.ts';

export interface VerifierOptions {
  readonly keys: readonly AuditKey[];
  /** Heads that were published: the trail has to contain these records. The MAC may be its first digits. */
  readonly heads?: readonly Head[];
  /** The head that the first record has to follow, if the trail does not begin with record 1. */
  readonly after?: Head | undefined;
  /** Skips lines that do not begin as a record, such as those of the log. */
  readonly skipOthers?: boolean;
}

export interface Place {
  readonly file: string;
  /** From 1. */
  readonly line: number;
}

export interface Defect extends Partial<Place> {
  readonly message: string;
}

/** Lines after a record that are none. */
interface Others {
  readonly place: Place;
  /** The first line. */
  readonly first: Buffer;
  lines: number;
  /** Over all of them, without the last line feed. */
  readonly hash: Hash;
  /** The last one has no line feed. */
  isOpen: boolean;
}

const recordStart = Buffer.from('{"audit":"');

/** Verifies a trail line by line, from its first record to its last. Its memory does not depend on the length of the trail. */
export class Verifier {
  readonly summary = new TrailSummary();
  readonly #keys: ReadonlyMap<string, AuditKey>;
  readonly #after: Head | undefined;
  readonly #skipOthers: boolean;
  #heads: readonly Head[];
  #head: Head | undefined;
  #others: Others | undefined;

  constructor({ keys, heads = [], after, skipOthers = false }: VerifierOptions) {
    this.#keys = new Map(keys.map((key) => [key.id, key]));
    this.#heads = heads;
    this.#after = after;
    this.#skipOthers = skipOthers;
  }

  /**
   * @param line without its line feed
   * @param isOpen the last line of a file, without a line feed
   * @returns what is wrong
   */
  add(line: Buffer, place: Place, isOpen = false): Defect | undefined {
    const record = parseRecord(line);
    if (record === undefined) {
      this.#addOther(line, place, isOpen);
      return undefined;
    }
    const defect = this.#checkOthers(record, place);
    if (defect !== undefined) return defect;
    const message = this.#problemOf(record, line) ?? this.#compareHeads(record);
    if (message !== undefined) return { ...place, message };
    this.#head = { sequence: record.sequence, mac: record.mac };
    this.summary.add(record);
    return undefined;
  }

  /** @returns what is wrong with the trail as a whole */
  end(): Defect | undefined {
    const others = this.#others;
    if (others !== undefined && !this.#isCut(others)) return notARecord(others.place);
    if (others !== undefined) this.summary.incomplete = others.place;
    const last = this.#head;
    if (last === undefined) return { message: 'There is no record.' };
    const beyond = this.#heads.find(({ sequence }) => sequence > last.sequence);
    if (beyond !== undefined) return { message: describeMissingHead(beyond, last) };
    const [before] = this.#heads;
    return (
      before && { message: `Record ${before.sequence} of --head is before the first record. Add its file.` }
    );
  }

  #problemOf(record: AuditRecord, line: Buffer): string | undefined {
    const key = this.#keys.get(record.key);
    if (key === undefined) {
      return `Record ${record.sequence} is sealed with the key ${record.key}, which no --key-file has: add that file, or the record is forged.`;
    }
    if (!isGenuine(line, key)) {
      return `Record ${record.sequence} was changed, or was written without the key: its MAC is wrong.`;
    }
    const problem =
      this.#head === undefined ? this.#problemOfFirst(record) : this.#problemOfNext(record, this.#head);
    return problem ?? describeKey(record, this.summary) ?? describeDamage(record);
  }

  #problemOfFirst(record: AuditRecord): string | undefined {
    const before = this.#after ?? genesis;
    const follows = record.sequence === before.sequence + 1 && record.prev.startsWith(before.mac);
    return follows ? undefined : describeFirst(record, this.#after);
  }

  #problemOfNext(record: AuditRecord, head: Head): string | undefined {
    const { instance } = this.summary;
    if (record.kind !== 'start' && record.instance !== instance) {
      return `Record ${record.sequence} is of instance ${record.instance}, among records of ${instance}: files of two instances are mixed. Verify the files of each instance separately.`;
    }
    const follows = record.sequence === head.sequence + 1 && record.prev === head.mac;
    return follows ? undefined : describeMisplaced(record, head);
  }

  #compareHeads({ sequence, mac }: AuditRecord): string | undefined {
    if (this.#heads.length === 0) return undefined;
    const stated = this.#heads.filter((head) => head.sequence === sequence);
    this.#heads = this.#heads.filter((head) => head.sequence !== sequence);
    const other = stated.find((head) => !mac.startsWith(head.mac));
    return other && describeOtherHead(other);
  }

  /** The start record that was written next has the hash of what was left before it. */
  #checkOthers({ sequence, fields }: AuditRecord, place: Place): Defect | undefined {
    const others = this.#others;
    this.#others = undefined;
    const { torn, tornSha256 } = fields;
    if (others !== undefined) {
      return others.hash.digest('hex') === tornSha256 ? undefined : notARecord(others.place);
    }
    // Among the lines of a log it is not known which of them were left.
    if (tornSha256 === undefined || this.#skipOthers) return undefined;
    return {
      ...place,
      message: `Record ${sequence} says that ${Number(torn)} bytes of an incomplete record were before it (torn), and they are not there now: they were removed.`,
    };
  }

  /** Whether the trail ends where its writer writes at this moment, or was killed. */
  #isCut({ first, lines, isOpen }: Others): boolean {
    if (lines > 1 || !isOpen) return false;
    return first.every((byte) => byte === 0) || isCutRecord(first, (this.#head?.sequence ?? 0) + 1);
  }

  #addOther(line: Buffer, place: Place, isOpen: boolean): void {
    if (this.#skipOthers && !line.subarray(0, recordStart.length).equals(recordStart)) return;
    const others = this.#others;
    if (others === undefined) {
      const hash = createHash('sha256').update(line);
      this.#others = { place, first: Buffer.from(line), lines: 1, hash, isOpen };
    } else {
      if (!others.isOpen) others.hash.update('\n');
      others.hash.update(line);
      // A line that is too long for a record comes in parts.
      if (!others.isOpen || place.line === 1) others.lines += 1;
      others.isOpen = isOpen;
    }
  }
}

function notARecord(place: Place): Defect {
  return {
    ...place,
    message:
      'The line is not a record: inserted, or a record that was damaged. What a crash leaves is no defect: the start record after it has its hash (tornSha256).',
  };
}
