import { spawn } from 'node:child_process';
import { createPrivateKey } from 'node:crypto';
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';

const readable = /^([0-9a-f]+)-([0-9a-f]+) r/;
const chunk = 4_194_304;

/** The first prime of an RSA key, as it is stored in PEM and as OpenSSL calculates with it. */
export function primeIn(pem: string): readonly Buffer[] {
  const { p = '' } = createPrivateKey(pem).export({ format: 'jwk' });
  const bytes = Buffer.from(p, 'base64url');
  return [bytes, Buffer.from(bytes.toReversed())];
}

/** How many of these texts are in the memory of another process. And how many bytes it has. */
export function foundIn(pid: number, texts: readonly Buffer[]): { found: number; bytes: number } {
  const memory = openSync(`/proc/${pid}/mem`, 'r');
  const overlap = Math.max(...texts.map(({ length }) => length));
  const found = new Set<Buffer>();
  let bytes = 0;
  const buffer = Buffer.alloc(chunk);
  for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
    const [, from = '0', to = '0'] = readable.exec(line) ?? [];
    const end = Number.parseInt(to, 16);
    for (let at = Number.parseInt(from, 16); at < end; at += chunk - overlap) {
      const read = tryRead(memory, buffer, Math.min(chunk, end - at), at);
      bytes += read;
      for (const text of texts) if (buffer.subarray(0, read).includes(text)) found.add(text);
    }
  }
  closeSync(memory);
  return { found: found.size, bytes };
}

/** Not where there is no /proc, or the system forbids debugging other processes of the same user. */
export function mayReadChildren(): boolean {
  const child = spawn(process.execPath, ['--version']);
  try {
    closeSync(openSync(`/proc/${child.pid}/mem`, 'r'));
    return true;
  } catch {
    return false;
  } finally {
    child.kill();
  }
}

/** Some regions of the kernel cannot be read. */
function tryRead(file: number, buffer: Buffer, length: number, at: number): number {
  try {
    return readSync(file, buffer, 0, length, at);
  } catch {
    return 0;
  }
}
