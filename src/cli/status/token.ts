import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { fromEnvironment } from '../../config/load.ts';
import { CliError } from '../shared/cli-error.ts';
import { exitCode } from '../shared/io.ts';

export const tokenOptions = {
  'token-file': {
    type: 'string',
    value: 'FILE',
    description: 'File with the token of the page (admin.tokenSha256 is its hash); - reads standard input',
  },
  'token-env': {
    type: 'string',
    value: 'NAME',
    description: 'Environment variable with the token, in place of a file',
  },
} as const;

export interface TokenValues {
  readonly 'token-file'?: string | undefined;
  readonly 'token-env'?: string | undefined;
}

/**
 * The token for the status page. Never part of a message.
 *
 * @throws CliError for options that exclude each other, a variable that is not set, or what is no token
 */
export async function readToken(values: TokenValues): Promise<string | undefined> {
  const { 'token-file': file, 'token-env': name } = values;
  if (file !== undefined && name !== undefined) {
    throw new CliError('--token-file and --token-env are mutually exclusive', exitCode.usage);
  }
  if (file === '-') return checked(await text(process.stdin), 'standard input');
  if (file !== undefined) return checked(await readFile(file, 'utf8'), file);
  // The name is not repeated: it may be the token, given by mistake.
  return name === undefined ? undefined : checked(fromEnvironment(name) ?? '', 'the variable of --token-env');
}

/** What fits into a header. */
function checked(content: string, place: string): string {
  const token = content.trim();
  if (/^[!-~]{1,4096}$/.test(token)) return token;
  const what = token === '' ? 'is empty or not set' : 'holds more than one line of plain characters';
  throw new CliError(`${place} ${what}: it must hold the token and nothing else`, exitCode.usage);
}
