import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';

/** The key of an audit trail. `KeyObject` hides its bytes from everything that prints. */
export interface AuditKey {
  /** 8 hex digits, in every record, to find the key for a record. They say nothing about the key itself. */
  readonly id: string;
  readonly secret: KeyObject;
}

const minBytes = 32;

/**
 * Reads the key of an audit trail: all bytes of the file but line ends at its end, which editors and tools for secrets
 * add and remove.
 *
 * @throws Error if the file cannot be read or holds less than 32 bytes
 */
export async function readAuditKey(file: string): Promise<AuditKey> {
  const bytes = await readFile(file);
  let end = bytes.length;
  while (bytes[end - 1] === 0x0a || bytes[end - 1] === 0x0d) end -= 1;
  if (end < minBytes) {
    throw new Error(
      `${file} has ${end} bytes, and an audit key needs at least ${minBytes}. Create one: openssl rand -hex 32`,
    );
  }
  return auditKey(bytes.subarray(0, end));
}

export function auditKey(bytes: Uint8Array): AuditKey {
  const secret = createSecretKey(bytes);
  const id = createHmac('sha256', secret).update('countersign audit key id').digest('hex').slice(0, 8);
  return { id, secret };
}
