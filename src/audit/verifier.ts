import { createHash, type Hash } from 'node:crypto';
import { basename } from 'node:path';
import {
  type AuditRecord,
  genesis,
  type Head,
  isCutRecord,
  isGenuine,
  isZero,
  parseRecord,
} from './chain.ts';
import { originOf } from './files.ts';
import type { AuditKey } from './key.ts';
import type { Earlier } from './trail.ts';

/** Unfinished requests whose IDs are kept. */
const keptIds = 10;

export interface VerifierOptions {
  readonly keys: readonly AuditKey[];
  /** Heads that were published: some file has to have these records. The MAC may be its first digits. */
  readonly heads?: readonly Head[];
  /** Heads of what is archived, which the given files follow. */
  readonly after?: readonly Head[];
  /** Skips lines that do not begin as a record, such as those of the log. */
  readonly skipOthers?: boolean;
}

interface Place {
  readonly file: string;
  /** From 1. */
  readonly line: number;
}

export interface Defect extends Partial<Place> {
  readonly message: string;
}

/** Lines after a record that are none. */
interface Others {
  /** Of the first line. */
  readonly place: Place;
  /** Over all of them, without the last line feed. */
  readonly hash: Hash;
  /** The last one has no line feed. */
  isOpen: boolean;
  /** They are what a process leaves that is killed within the next record. */
  isCut: boolean;
}

/** What the trails of an instance have to agree on. */
interface Instance {
  /** In the order in which they took effect. */
  readonly keys: Set<string>;
  /** The newest record of the start before. */
  last?: Earlier;
}

const recordStart = Buffer.from('{"audit":"');

/**
 * Verifies trails line by line: a trail is what one start of a process wrote (in older versions: what all starts of an
 * instance wrote). Its memory does not depend on their length.
 */
export class Verifier {
  readonly summary = new TrailSummary();
  readonly #options: VerifierOptions;
  readonly #keys: ReadonlyMap<string, AuditKey>;
  readonly #instances = new Map<string, Instance>();
  /** Those whose records are still to come, by their sequence number. */
  readonly #heads: Map<number, Head[]>;
  readonly #after: Set<Head>;
  /** The newest record of the trail. */
  #last: AuditRecord | undefined;
  #place: Place | undefined;
  #others: Others | undefined;

  constructor(options: VerifierOptions) {
    this.#options = options;
    this.#keys = new Map(options.keys.map((key) => [key.id, key]));
    this.#heads = Map.groupBy(options.heads ?? [], ({ sequence }) => sequence);
    this.#after = new Set(options.after);
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
    const others = this.#others;
    this.#others = undefined;
    // The start record that was written next has the hash of what a crash left, in the files of older versions.
    if (others !== undefined && others.hash.digest('hex') !== record.fields['tornSha256'])
      return notARecord(others.place);
    const message = this.#problemOf(record, line, place, others !== undefined);
    if (message !== undefined) return { ...place, message };
    this.#accept(record, place);
    return undefined;
  }

  /** To be called after the last file of each trail. @returns what is wrong with its end */
  endTrail(): Defect | undefined {
    const [others, last, place] = [this.#others, this.#last, this.#place];
    this.#others = this.#last = this.#place = undefined;
    if (others !== undefined && !(others.isOpen && others.isCut)) return notARecord(others.place);
    if (others !== undefined) this.summary.incomplete.push(others.place);
    if (last === undefined || place === undefined) return undefined;
    this.summary.endTrail(last, place.file);
    const file = basename(place.file);
    if (originOf(file) !== undefined)
      this.#instanceOf(last.instance).last = { file, sequence: last.sequence, mac: last.mac };
    return undefined;
  }

  /** To be called after all trails. @returns what is missing */
  end(): Defect | undefined {
    if (this.summary.records === 0) return { message: 'There is no record.' };
    const [head] = [...this.#heads.values()].flat();
    if (head === undefined) return undefined;
    return {
      message: `No file has record ${headText(head)} of --head: records were cut off at the end, its file is missing, or it was rewritten with the key.`,
    };
  }

  #accept(record: AuditRecord, place: Place): void {
    const { instance, key, sequence, mac } = record;
    const heads = this.#heads.get(sequence);
    if (heads !== undefined)
      this.#heads.set(
        sequence,
        heads.filter((head) => !mac.startsWith(head.mac)),
      );
    this.#instanceOf(instance).keys.add(key);
    this.#last = record;
    this.#place = place;
    this.summary.add(record);
  }

  #instanceOf(name: string): Instance {
    const known = this.#instances.get(name) ?? { keys: new Set() };
    this.#instances.set(name, known);
    return known;
  }

  #problemOf(record: AuditRecord, line: Buffer, place: Place, hasOthers: boolean): string | undefined {
    const { sequence } = record;
    const key = this.#keys.get(record.key);
    if (key === undefined)
      return `Record ${sequence} is sealed with the key ${record.key}, which no --key-file has: add that file, or the record is forged.`;
    if (!isGenuine(line, key))
      return `Record ${sequence} was changed, or was written without the key: its MAC is wrong.`;
    const last = this.#last;
    return (
      (last === undefined ? this.#problemOfFirst(record) : describeMisplaced(record, last)) ??
      (place.file === this.#place?.file ? undefined : this.#problemOfFile(record, basename(place.file))) ??
      this.#problemOfKey(record) ??
      // Among the lines of a log it is not known which of them were left.
      (hasOthers || this.#options.skipOthers ? undefined : describeRemoved(record))
    );
  }

  #problemOfFirst({ sequence, prev }: AuditRecord): string | undefined {
    if (sequence === 1 && prev === genesis.mac) return undefined;
    if (this.#isArchived({ sequence: sequence - 1, mac: prev })) return undefined;
    return `The trail begins with record ${sequence}: the records before it are missing, or do not end with the head of --after. Give their files, or their head with --after.`;
  }

  #isArchived({ sequence, mac }: Head): boolean {
    const found = [...this.#after].find((head) => head.sequence === sequence && mac.startsWith(head.mac));
    return found !== undefined && this.#after.delete(found);
  }

  /** The first record of a file has its name, and that of a start the newest record of the start before. */
  #problemOfFile({ instance, fields }: AuditRecord, file: string): string | undefined {
    const start = originOf(file)?.start;
    if (start === undefined) return undefined;
    if (fields['file'] !== file)
      return `The file was written as ${String(fields['file'])}: it was copied or renamed.`;
    if (fields['continued'] === true) return undefined;
    const { last } = this.#instanceOf(instance);
    const before = earlierIn(fields);
    if (before === undefined)
      return last && `The start found no earlier file, and there is ${last.file}: it was added later.`;
    // An earlier process may still have been running.
    const isThere =
      last === undefined
        ? this.#isArchived(before)
        : originOf(last.file)?.start === originOf(before.file)?.start &&
          (last.sequence > before.sequence || last.mac === before.mac);
    if (isThere) return undefined;
    return `The start follows record ${headText(before)} of ${before.file}, which is not before it: records were cut off, or files removed or added. Give files that are missing or, if they are archived, this head with --after.`;
  }

  /** A holder of a key that was replaced would otherwise continue, or begin another trail. */
  #problemOfKey({ sequence, kind, instance, key }: AuditRecord): string | undefined {
    const { keys } = this.#instanceOf(instance);
    const current = [...keys].at(-1);
    if (current === undefined || key === current) return undefined;
    if (keys.has(key))
      return `Record ${sequence} is sealed with the key ${key}, which the key ${current} has replaced before: someone who has the replaced key wrote it, or the process was started with it by mistake. Its log shows which.`;
    if (kind === 'start') return undefined;
    return `Record ${sequence} is sealed with the key ${key}, the one before it with ${current}: only a start record begins another key, so a holder of both keys inserted it.`;
  }

  #addOther(line: Buffer, place: Place, isOpen: boolean): void {
    if (this.#options.skipOthers && !line.subarray(0, recordStart.length).equals(recordStart)) return;
    const others = this.#others;
    if (others === undefined) {
      const isCut = isCutRecord(line, (this.#last?.sequence ?? 0) + 1);
      this.#others = { place, isOpen, isCut, hash: createHash('sha256').update(line) };
      return;
    }
    // A line that is too long for a record comes in parts.
    others.isCut &&= others.isOpen && others.place.file === place.file && isZero(line);
    others.hash.update(others.isOpen ? '' : '\n').update(line);
    others.isOpen = isOpen;
  }
}

function notARecord(place: Place): Defect {
  return { ...place, message: 'The line is not a record: inserted, or a record that was damaged.' };
}

export function headText({ sequence, mac }: Head): string {
  return `${sequence}:${mac}`;
}

/** What a start record says of the start before it. */
function earlierIn({ before }: AuditRecord['fields']): Earlier | undefined {
  if (typeof before !== 'object' || before === null) return undefined;
  const { file, sequence, mac }: Readonly<Record<string, unknown>> = { ...before };
  return { file: String(file), sequence: numberIn(sequence), mac: String(mac) };
}

/**
 * What is wrong with the place of a record in its chain. Its MAC is right, so the holder of the key wrote it, but perhaps not
 * after the record that is before it now.
 */
function describeMisplaced(record: AuditRecord, last: AuditRecord): string | undefined {
  const { sequence, kind, prev } = record;
  const next = last.sequence + 1;
  if (sequence === next && prev === last.mac) return undefined;
  if (sequence > next) {
    const missing = sequence === next + 1 ? `Record ${next} is` : `Records ${next} to ${sequence - 1} are`;
    return `${missing} missing before record ${sequence}: removed, or in a file that was left out or comes later.`;
  }
  if (sequence === 1 && kind === 'start')
    return `A new chain begins here instead of record ${next}: the file was removed or replaced, or these are the outputs of several processes. Verify each with a command of its own.`;
  if (sequence < next)
    return `Record ${sequence} is repeated or out of order here: record ${next} should follow. It was copied or moved, or the files are in another order.`;
  return `Record ${sequence} follows another record than the one before it: that one was replaced, or two trails are mixed.`;
}

/** In the files of older versions, a start record says what its process found after the last record. */
function describeRemoved({ sequence, fields: { torn, tornSha256, damaged } }: AuditRecord) {
  if (tornSha256 === undefined && damaged === undefined) return undefined;
  return `Record ${sequence} says that ${String(damaged ?? torn)} bytes before it were no whole record, and they are not there now: they were removed.`;
}

/** What the trails contain, for a report. */
export class TrailSummary {
  records = 0;
  first: AuditRecord | undefined;
  last: AuditRecord | undefined;
  readonly instances = new Set<string>();
  readonly keys = new Set<string>();
  /** The newest record of each trail. */
  readonly heads: { readonly head: Head; readonly file: string }[] = [];
  /** Configurations that a start or a reload applied. */
  configs = 0;
  /** The record of the last one. */
  lastConfig: AuditRecord | undefined;
  /** Records that could not be written. */
  lost = 0;
  /** Rejected requests that have no record, because their caller had too many. */
  omitted = 0;
  /** The incomplete last lines of trails. */
  readonly incomplete: Place[] = [];
  /** Trails without a stop record. */
  readonly unstopped: string[] = [];
  /** Requests with an intent and without a result when their process ended. */
  unfinished = 0;
  readonly unfinishedIds: string[] = [];
  readonly #open = new Set<string>();

  add(record: AuditRecord): void {
    const { kind, fields } = record;
    this.records += 1;
    this.first ??= record;
    this.last = record;
    this.instances.add(record.instance);
    this.keys.add(record.key);
    if (kind === 'start') this.#start(record);
    else if (kind === 'config') this.#configure(record);
    else if (kind === 'gap') this.lost += numberIn(fields['lost']);
    else if (kind === 'omitted') this.omitted += numberIn(fields['count']);
    else if (kind === 'intent') this.#open.add(idOf(fields));
    else if (kind === 'result' || kind === 'rejected') this.#open.delete(idOf(fields));
  }

  endTrail(last: AuditRecord, file: string): void {
    this.heads.push({ head: last, file });
    if (last.kind !== 'stop') this.unstopped.push(file);
    this.#endProcess();
  }

  /** Another file or key of the same process keeps its requests; another process has none of them. */
  #start(record: AuditRecord): void {
    const { fields } = record;
    if (fields['continued'] === true) return;
    if (fields['config'] !== undefined) this.#configure(record);
    this.#endProcess();
  }

  #configure(record: AuditRecord): void {
    this.configs += 1;
    this.lastConfig = record;
  }

  #endProcess(): void {
    this.unfinished += this.#open.size;
    this.unfinishedIds.push(...[...this.#open].slice(0, keptIds - this.unfinishedIds.length));
    this.#open.clear();
  }
}

/** In older trails, a query that was sent ahead of a payment (a canary) has the payment's ID. */
function idOf({ request, canary }: AuditRecord['fields']): string {
  return canary === true ? `canary of ${String(request)}` : String(request);
}

function numberIn(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}
