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
import { isTorn, isTornStart } from './torn-line.ts';
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

/** Lines between two records that are none. */
interface Torn {
  readonly place: Place;
  bytes: number;
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
  #torn: Torn | undefined;
  /** A line without a line feed, that is none of a record. */
  #unended: Place | undefined;

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
    if (record === undefined) return this.#addOther(line, place, isOpen);
    const before = this.#checkUnended(record) ?? this.#checkTorn(record);
    if (before !== undefined) return before;
    const message = this.#problemOf(record, line) ?? this.#compareHeads(record);
    if (message !== undefined) return { ...place, message };
    this.#head = { sequence: record.sequence, mac: record.mac };
    this.summary.add(record);
    return undefined;
  }

  /** @returns what is wrong with the trail as a whole */
  end(): Defect | undefined {
    if (this.#torn !== undefined) return notARecord(this.#torn.place);
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

  /** A file ends with an incomplete line only if it is the last one, or if its writer began another. */
  #checkUnended({ kind }: AuditRecord): Defect | undefined {
    const unended = this.#unended;
    this.#unended = undefined;
    if (unended === undefined || kind === 'start') return undefined;
    return {
      ...unended,
      message:
        'The line has no line feed, and the record after it is no start record: the end of the file was changed.',
    };
  }

  /** The process that was started next has recorded what the one before left incomplete. */
  #checkTorn({ fields }: AuditRecord): Defect | undefined {
    const torn = this.#torn;
    this.#torn = undefined;
    if (torn === undefined || torn.bytes === fields['torn']) return undefined;
    return notARecord(torn.place);
  }

  #addOther(line: Buffer, place: Place, isOpen: boolean): Defect | undefined {
    const isRecord = line.subarray(0, recordStart.length).equals(recordStart);
    if (this.#skipOthers && !isRecord) return undefined;
    const torn = this.#torn;
    if (!(torn === undefined ? isTorn(line) : isTornStart(line))) return notARecord(torn?.place ?? place);
    if (isOpen) {
      this.summary.addIncomplete(place);
      this.#unended = place;
    } else if (torn === undefined) this.#torn = { place, bytes: line.length + 1 };
    else torn.bytes += line.length + 1;
    return undefined;
  }
}

function notARecord(place: Place): Defect {
  return {
    ...place,
    message:
      'The line is not a record: inserted, or a record that was damaged. A crash leaves only the beginning of a record, and the start record after it has its length.',
  };
}
