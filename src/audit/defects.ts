import type { AuditRecord, Head } from './chain.ts';
import type { TrailSummary } from './trail-summary.ts';

/** Digits of a MAC that are shown. */
const shownDigits = 16;

export function headText({ sequence, mac }: Head): string {
  return `${sequence}:${mac}`;
}

/**
 * What is wrong with the place of a record in its chain. Its MAC is right, so the holder of the key wrote it, but not after
 * the record that is before it now.
 *
 * @param expected the head that it should follow
 */
export function describeMisplaced(record: AuditRecord, expected: Head): string {
  const { sequence, kind } = record;
  const next = expected.sequence + 1;
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
  return `Record ${sequence} follows another record than the one before it (${short(record.prev)}, not ${short(expected.mac)}): the one before it was replaced, or two trails are mixed.`;
}

export function describeFirst({ sequence }: AuditRecord, after: Head | undefined): string {
  if (after !== undefined) {
    return `Record ${sequence} does not follow the head of --after, ${headText(after)}: records between them are missing, or earlier ones were rewritten.`;
  }
  return `The trail begins with record ${sequence}: the records before it are missing. Give their files first, or their head with --after.`;
}

/** @param last the newest record @param stated a head that was published */
export function describeMissingHead(stated: Head, last: Head): string {
  return `The trail ends with record ${last.sequence}, but record ${stated.sequence} was written: records were cut off at the end, or a file is missing.`;
}

export function describeOtherHead({ sequence }: Head): string {
  return `Record ${sequence} has another MAC than --head: the trail was cut and continued, or rewritten with the key.`;
}

/**
 * What is wrong with the key of a record that is in its place: a holder of a key that was replaced would otherwise continue
 * the trail.
 *
 * @param earlier up to the record before
 */
export function describeKey(
  { sequence, kind, key }: AuditRecord,
  { keys, last }: TrailSummary,
): string | undefined {
  if (last === undefined || key === last.key) return undefined;
  if (keys.has(key)) {
    return `Record ${sequence} is sealed with the key ${key}, which the key ${last.key} has replaced before: someone who has the replaced key continued the trail, or the process was started with it by mistake. Its log shows which.`;
  }
  if (kind === 'start') return undefined;
  return `Record ${sequence} is sealed with the key ${key}, the one before it with ${last.key}: only a start record begins another key, so a holder of both keys inserted it.`;
}

/** The process that wrote this start record found lines before it that no crash leaves; those that are still there are found first. */
export function describeDamage({ sequence, fields: { damaged } }: AuditRecord): string | undefined {
  if (typeof damaged !== 'number') return undefined;
  return `Record ${sequence} says that ${damaged} bytes before it were no records (damaged), and they are not there now: records were changed or added, and removed later.`;
}

function short(mac: string): string {
  return mac.slice(0, shownDigits);
}
