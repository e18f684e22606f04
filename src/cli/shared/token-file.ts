import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { secretText } from '../../util/secret-text.ts';
import { CliError, exitCode } from './cli-error.ts';

/**
 * A bearer token in a file; `-` is standard input. Never part of a message.
 *
 * @throws CliError for what is no token; an error of node:fs for an unreadable file
 */
export async function readToken(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined;
  return file === '-'
    ? checked(await buffer(process.stdin), 'standard input')
    : checked(await readFile(file), file);
}

/** What fits into a header. */
function checked(content: Uint8Array, place: string): string {
  const read = secretText(content, 'token');
  if ('text' in read && read.text.length <= 4096) return read.text;
  const fault = 'fault' in read ? read.fault : 'is too long';
  throw new CliError(`${place} ${fault}: it must hold the token and nothing else`, exitCode.usage);
}
