import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';
import { readConsistent } from '../read-files.ts';

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
  const { bytes, fault } = await readKeyFile(file);
  if (fault !== undefined) throw new Error(`${file} ${fault}`);
  return auditKey(bytes);
}

/** What is wrong with the key in a file, without the name of the file. @throws Error if it cannot be read */
export async function auditKeyFault(file: string): Promise<string | undefined> {
  return (await readKeyFile(file)).fault;
}

/** Only a regular file: a read of another one may never end. */
async function readKeyFile(file: string): Promise<{ bytes: Buffer; fault: string | undefined }> {
  const [content] = (await readConsistent([file])).contents;
  if (content === undefined) throw new Error(`${file} does not exist`);
  let end = content.length;
  while (content[end - 1] === 0x0a || content[end - 1] === 0x0d) end -= 1;
  const bytes = content.subarray(0, end);
  if (end >= minBytes) return { bytes, fault: undefined };
  const fault = `has ${end} bytes, and a key needs at least ${minBytes}. Create one: openssl rand -hex 32`;
  return { bytes, fault };
}

export function auditKey(bytes: Uint8Array): AuditKey {
  const secret = createSecretKey(bytes);
  const id = createHmac('sha256', secret).update('countersign audit key id').digest('hex').slice(0, 8);
  return { id, secret };
}
