import { createPublicKey, generateKeyPair, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { KeyKind } from '../../oauth1/methods.ts';
import { writeAtomically } from './write-atomically.ts';

/** A throwaway key, as both sides of a demo store it. */
export interface NewKey {
  /** Name of its file in the key directory of a login. */
  readonly file: string;
  readonly content: string;
  /** Body of `PUT /keys/{login}` of the simulator (docs/simulator.md). */
  readonly registration: Readonly<Record<string, readonly string[]>>;
}

export async function generateKey(kind: KeyKind): Promise<NewKey> {
  if (kind === 'control_key') {
    const content = randomBytes(24).toString('base64url');
    return { file: 'control_key', content, registration: { controlKeys: [content] } };
  }
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
  const publicKey = createPublicKey(privateKey).export({ type: 'spki', format: 'pem' });
  return {
    file: 'private_key.pem',
    content: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    registration: { publicKeys: [publicKey] },
  };
}

/** Writes a key to where the directory source reads it. */
export function writeKey(directory: string, { file, content }: NewKey): void {
  writeAtomically(join(directory, file), content);
}

/** Whether a directory has this key now. @throws an error of node:fs if it has none */
export function hasKey(directory: string, { file, content }: NewKey): boolean {
  return readFileSync(join(directory, file), 'utf8') === content;
}
