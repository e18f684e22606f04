import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** RSASSA-PKCS1-v1_5 with SHA-256, verified by the program `openssl`. */
export function opensslVerifies(publicKeyFile: string, text: string, signatureBase64: string): boolean {
  const directory = mkdtempSync(join(tmpdir(), 'countersign-openssl-'));
  try {
    const signatureFile = join(directory, 'signature');
    writeFileSync(signatureFile, Buffer.from(signatureBase64, 'base64'));
    const result = openssl(['dgst', '-sha256', '-verify', publicKeyFile, '-signature', signatureFile], text);
    if (result.text.startsWith('Verif')) return result.status === 0;
    throw new Error(`openssl cannot verify: ${result.text}`);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** HMAC-SHA1 in base64, computed by the program `openssl`. */
export function opensslHmacSha1(key: string, text: string): string {
  const hexKey = Buffer.from(key).toString('hex');
  const { stdout, status } = openssl(
    ['dgst', '-sha1', '-mac', 'HMAC', '-macopt', `hexkey:${hexKey}`, '-binary'],
    text,
  );
  if (status !== 0) throw new Error('openssl cannot compute an HMAC');
  return stdout.toString('base64');
}

function openssl(args: readonly string[], input: string) {
  const { stdout, stderr, status } = spawnSync('openssl', args, { input });
  return { stdout, status, text: Buffer.concat([stdout, stderr]).toString() };
}
