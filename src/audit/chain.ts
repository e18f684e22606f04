import { createHmac, timingSafeEqual } from 'node:crypto';
import { parseJson } from '../util/text.ts';
import type { AuditKey } from './key.ts';

/** docs/audit.md says when each is written. */
export const recordKinds = [
  'start',
  'config',
  'intent',
  'result',
  'rejected',
  'callback',
  'released',
  'omitted',
  'gap',
  'stop',
] as const;
export type RecordKind = (typeof recordKinds)[number];

/** The newest record of a chain. */
export interface Head {
  /** The first record has 1. */
  readonly sequence: number;
  /** 64 hex digits. */
  readonly mac: string;
}

/** Before the first record. */
export const genesis: Head = { sequence: 0, mac: '0'.repeat(64) };

/** The end of a record. What is cut off never contains it: within a text of JSON its quotation marks are escaped. */
const sealOf = (mac: string): string => `,"mac":"${mac}"}`;
const seal = new RegExp(sealOf('([0-9a-f]{64})'));
const sealLength = sealOf(genesis.mac).length;
/** As of an {@link AuditKey}. What else a forger writes there would be printed when the key is not known. */
const keyId = /^[0-9a-f]{8}$/;

/**
 * A chain of records. Each is one line of JSON with the MAC of the record before it (`prev`) and, as its last member, its
 * own: HMAC-SHA256 over the bytes of the line up to that member. So nothing has to be canonicalized to verify it.
 */
export class AuditChain {
  readonly #instance: string;
  /** Seals the next records. */
  key: AuditKey;
  /** The record that the next one follows. Set to an earlier one if later ones were not written. */
  head: Head;

  constructor(key: AuditKey, instance: string, head: Head = genesis) {
    this.key = key;
    this.#instance = JSON.stringify(instance);
    this.head = head;
  }

  /**
   * Appends a record. @param fields members of a JSON object, without its braces @returns the line with its line feed
   */
  seal(kind: RecordKind, fields: string): string {
    const sequence = this.head.sequence + 1;
    const prefix = `{"audit":"${kind}","seq":${sequence},"instance":${this.#instance},"key":"${this.key.id}"`;
    const signed = `${prefix},${fields},"prev":"${this.head.mac}"`;
    const mac = createHmac('sha256', this.key.secret).update(signed).digest('hex');
    this.head = { sequence, mac };
    return `${signed}${sealOf(mac)}\n`;
  }
}

/** A line with the shape of a record. Its MAC may still be wrong. */
export interface AuditRecord extends Head {
  readonly kind: RecordKind;
  readonly instance: string;
  /** The `id` of the audit key. */
  readonly key: string;
  /** The MAC of the record before. */
  readonly prev: string;
  /** All members of the line. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** @param line without its line feed @returns `undefined` if the line is not a whole record */
export function parseRecord(line: Buffer): AuditRecord | undefined {
  if (sealedMac(line) === undefined) return undefined;
  const value = parseJson(line.toString('utf8'));
  if (typeof value !== 'object' || value === null) return undefined;
  const fields: AuditRecord['fields'] = { ...value };
  const { audit, seq, instance, key, prev, mac } = fields;
  const kind = recordKinds.find((known) => known === audit);
  if (kind === undefined) return undefined;
  if (typeof seq !== 'number' || !Number.isSafeInteger(seq) || seq < 1) return undefined;
  if (typeof instance !== 'string' || typeof key !== 'string' || !keyId.test(key)) return undefined;
  if (typeof prev !== 'string' || typeof mac !== 'string') return undefined;
  return { kind, sequence: seq, instance, key, prev, mac, fields };
}

/** Whether the holder of the key wrote this line. @param line one that {@link parseRecord} accepts */
export function isGenuine(line: Buffer, { secret }: AuditKey): boolean {
  const mac = createHmac('sha256', secret).update(line.subarray(0, -sealLength)).digest();
  return timingSafeEqual(mac, Buffer.from(sealedMac(line) ?? '', 'hex'));
}

/** The MAC at the end of a line. */
function sealedMac(line: Buffer): string | undefined {
  return seal.exec(line.toString('latin1', Math.max(0, line.length - sealLength)))?.[1];
}

/** What a power failure may leave. */
export function isZero(line: Buffer): boolean {
  return line.every((byte) => byte === 0);
}

/** Whether a process can have been killed within this line, when it wrote the record with this sequence number. */
export function isCutRecord(line: Buffer, sequence: number): boolean {
  if (isZero(line)) return true;
  const text = line.toString('latin1');
  if (seal.test(text) || parseJson(text) !== undefined) return false;
  return recordKinds.some((kind) => {
    const start = `{"audit":"${kind}","seq":${sequence},`;
    return start.startsWith(text.slice(0, start.length));
  });
}
