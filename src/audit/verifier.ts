import { createHash, type Hash } from 'node:crypto';
import { type AuditRecord, genesis, type Head, isCutRecord, isGenuine, parseRecord } from './chain.ts';
import type { AuditKey } from './key.ts';

/** Unfinished requests whose IDs are kept. */
const keptIds = 10;

/** More requests than one process has in flight: if so many begin after a request, its result was lost with a gap. */
const maxInFlight = 100_000;

/** Digits of a MAC that are shown. */
const shownDigits = 16;

export interface VerifierOptions {
  readonly keys: readonly AuditKey[];
  /** Heads that were published: the trail has to contain these records. The MAC may be its first digits. */
  readonly heads?: readonly Head[];
  /** The head that the first record has to follow, if the trail does not begin with record 1. */
  readonly after?: Head | undefined;
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
  readonly #options: VerifierOptions;
  readonly #keys: ReadonlyMap<string, AuditKey>;
  /** Those whose records are still to come. */
  #heads: readonly Head[];
  #others: Others | undefined;

  constructor(options: VerifierOptions) {
    this.#options = options;
    this.#keys = new Map(options.keys.map((key) => [key.id, key]));
    this.#heads = options.heads ?? [];
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
    const message = this.#problemOf(record, line);
    if (message !== undefined) return { ...place, message };
    this.summary.add(record);
    return undefined;
  }

  /** @returns what is wrong with the trail as a whole */
  end(): Defect | undefined {
    const others = this.#others;
    if (others !== undefined && !this.#isCut(others)) return notARecord(others.place);
    if (others !== undefined) this.summary.incomplete = others.place;
    const { last } = this.summary;
    if (last === undefined) return { message: 'There is no record.' };
    const beyond = this.#heads.find(({ sequence }) => sequence > last.sequence);
    if (beyond !== undefined) {
      return {
        message: `The trail ends with record ${last.sequence}, but record ${beyond.sequence} was written: records were cut off at the end, or a file is missing.`,
      };
    }
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
    const { last } = this.summary;
    const problem = last === undefined ? this.#problemOfFirst(record) : describeMisplaced(record, last);
    return (
      problem ?? describeKey(record, this.summary) ?? describeDamage(record) ?? this.#compareHeads(record)
    );
  }

  #problemOfFirst({ sequence, prev }: AuditRecord): string | undefined {
    const { after } = this.#options;
    const before = after ?? genesis;
    if (sequence === before.sequence + 1 && prev.startsWith(before.mac)) return undefined;
    return after === undefined
      ? `The trail begins with record ${sequence}: the records before it are missing. Give their files first, or their head with --after.`
      : `Record ${sequence} does not follow the head of --after, ${headText(after)}: records between them are missing, or earlier ones were rewritten.`;
  }

  #compareHeads({ sequence, mac }: AuditRecord): string | undefined {
    if (this.#heads.length === 0) return undefined;
    const stated = this.#heads.filter((head) => head.sequence === sequence);
    this.#heads = this.#heads.filter((head) => head.sequence !== sequence);
    if (stated.every((head) => mac.startsWith(head.mac))) return undefined;
    return `Record ${sequence} has another MAC than --head: the trail was cut and continued, or rewritten with the key.`;
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
    if (tornSha256 === undefined || this.#options.skipOthers) return undefined;
    return {
      ...place,
      message: `Record ${sequence} says that ${Number(torn)} bytes of an incomplete record were before it (torn), and they are not there now: they were removed.`,
    };
  }

  /** Whether the trail ends where its writer writes at this moment, or was killed. */
  #isCut({ first, lines, isOpen }: Others): boolean {
    if (lines > 1 || !isOpen) return false;
    return (
      first.every((byte) => byte === 0) ||
      isCutRecord(first.toString('latin1'), (this.summary.last?.sequence ?? 0) + 1)
    );
  }

  #addOther(line: Buffer, place: Place, isOpen: boolean): void {
    if (this.#options.skipOthers && !line.subarray(0, recordStart.length).equals(recordStart)) return;
    const others = (this.#others ??= {
      place,
      first: Buffer.from(line),
      lines: 0,
      hash: createHash('sha256'),
      isOpen: true,
    });
    if (!others.isOpen) others.hash.update('\n');
    others.hash.update(line);
    // A line that is too long for a record comes in parts.
    if (!others.isOpen || others.lines === 0 || place.line === 1) others.lines += 1;
    others.isOpen = isOpen;
  }
}

function notARecord(place: Place): Defect {
  return {
    ...place,
    message:
      'The line is not a record: inserted, or a record that was damaged. What a crash leaves is no defect: the start record after it has its hash (tornSha256).',
  };
}

export function headText({ sequence, mac }: Head): string {
  return `${sequence}:${mac}`;
}

/**
 * What is wrong with the place of a record in its chain. Its MAC is right, so the holder of the key wrote it, but perhaps not
 * after the record that is before it now.
 */
function describeMisplaced(record: AuditRecord, last: AuditRecord): string | undefined {
  const { sequence, kind, instance, prev } = record;
  if (kind !== 'start' && instance !== last.instance) {
    return `Record ${sequence} is of instance ${instance}, among records of ${last.instance}: files of two instances are mixed. Verify the files of each instance separately.`;
  }
  const next = last.sequence + 1;
  if (sequence === next && prev === last.mac) return undefined;
  if (sequence > next) {
    const missing = sequence === next + 1 ? `Record ${next} is` : `Records ${next} to ${sequence - 1} are`;
    return `${missing} missing before record ${sequence}: removed, or in a file that was left out or comes later.`;
  }
  if (sequence === 1 && kind === 'start') {
    return `A new chain begins here instead of record ${next}: the file was removed or replaced, or the process writes to standard output. Verify each chain separately, with its --head.`;
  }
  if (sequence < next) {
    return `Record ${sequence} is repeated or out of order here: record ${next} should follow. It was copied or moved, or the files are in another order.`;
  }
  return `Record ${sequence} follows another record than the one before it (${short(prev)}, not ${short(last.mac)}): the one before it was replaced, or two trails are mixed.`;
}

/**
 * What is wrong with the key of a record that is in its place: a holder of a key that was replaced would otherwise continue
 * the trail.
 */
function describeKey({ sequence, kind, key }: AuditRecord, { keys, last }: TrailSummary): string | undefined {
  if (last === undefined || key === last.key) return undefined;
  if (keys.has(key)) {
    return `Record ${sequence} is sealed with the key ${key}, which the key ${last.key} has replaced before: someone who has the replaced key continued the trail, or the process was started with it by mistake. Its log shows which.`;
  }
  if (kind === 'start') return undefined;
  return `Record ${sequence} is sealed with the key ${key}, the one before it with ${last.key}: only a start record begins another key, so a holder of both keys inserted it.`;
}

/** The process that wrote this start record found lines before it that no crash leaves; those that are still there are found first. */
function describeDamage({ sequence, fields: { damaged } }: AuditRecord): string | undefined {
  if (typeof damaged !== 'number') return undefined;
  return `Record ${sequence} says that ${damaged} bytes before it were no records (damaged), and they are not there now: records were changed or added, and removed later.`;
}

function short(mac: string): string {
  return mac.slice(0, shownDigits);
}

/** What a trail contains, for a report. */
export class TrailSummary {
  records = 0;
  first: AuditRecord | undefined;
  last: AuditRecord | undefined;
  readonly instances = new Set<string>();
  readonly keys = new Set<string>();
  /** Configurations that a start or a reload applied. */
  configs = 0;
  /** The start record or the config record of the last one. */
  lastConfig: AuditRecord | undefined;
  /** Records that could not be written. */
  lost = 0;
  /** Rejected requests that have no record, because their caller had too many. */
  omitted = 0;
  /** Bytes of records that crashes cut off. */
  torn = 0;
  /** The last line, if it is incomplete. */
  incomplete: { readonly file: string; readonly line: number } | undefined;
  /** Requests with an intent and without a result when the process ended. */
  unfinished = 0;
  readonly unfinishedIds: string[] = [];
  readonly #open = new Set<string>();
  /** Open ones whose IDs are not kept. */
  #dropped = 0;

  /** Requests with an intent and, so far, without a result: in flight when the file was copied, or when the process ended. */
  get open(): number {
    return this.#open.size + this.#dropped;
  }

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
    else if (kind === 'intent') this.#begin(idOf(fields));
    else if (kind === 'result' || kind === 'rejected') this.#open.delete(idOf(fields));
  }

  /** Another file or key of the same process keeps its requests; another process has none of them. */
  #start(record: AuditRecord): void {
    const { fields } = record;
    this.torn += numberIn(fields['torn']);
    if (fields['continued'] === true) return;
    if (fields['config'] !== undefined) this.#configure(record);
    this.unfinished += this.open;
    this.unfinishedIds.push(...[...this.#open].slice(0, keptIds - this.unfinishedIds.length));
    this.#open.clear();
    this.#dropped = 0;
  }

  #configure(record: AuditRecord): void {
    this.configs += 1;
    this.lastConfig = record;
  }

  #begin(id: string): void {
    this.#open.add(id);
    if (this.#open.size < 2 * maxInFlight) return;
    const oldest = [...this.#open].slice(0, maxInFlight);
    for (const one of oldest) this.#open.delete(one);
    this.#dropped += oldest.length;
  }
}

/** In older trails, a query that was sent ahead of a payment (a canary) has the payment's ID. */
function idOf({ request, canary }: AuditRecord['fields']): string {
  return canary === true ? `canary of ${String(request)}` : String(request);
}

function numberIn(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}
