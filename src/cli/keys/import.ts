import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { type KeyFields, parseKeys } from '../../keys/key.ts';
import type { KeyKind } from '../../oauth1/methods.ts';
import { type SecretForm, secretText } from '../../util/secret-text.ts';
import { CliError } from '../shared/cli-error.ts';
import { command, type Io, oneOf } from '../shared/command.ts';
import { commonOptions } from './options.ts';
import { addKey, addOptions } from './write.ts';

/** What `process.stdin` is at a terminal. */
export interface Terminal extends AsyncIterable<unknown> {
  setRawMode(raw: boolean): unknown;
  setEncoding(encoding: 'utf8'): unknown;
}

type Content = Uint8Array | string;

const controlC = '\u0003';

const controlD = '\u0004';

const backspaces = ['\u007f', '\b'];

const options = {
  ...commonOptions,
  'kind KIND': 'control_key, or private_key (RSA, PEM: PKCS#1 or PKCS#8)',
  'from FILE': 'File that holds the key (default: standard input)',
  'passphrase-file FILE':
    'File that holds the passphrase of an encrypted private key; stored in Vault with the key',
  ...addOptions,
};

const spec = {
  name: 'keys import',
  usage: '--config FILE --environment NAME --login LOGIN --kind KIND [options]',
  about:
    "Imports an existing key into Vault as a new version of the login's secret; other fields are kept. Reads the key from standard input (hidden on a terminal), never from an argument. Unusable keys are rejected and nothing is written.",
  options,
};

export const importKey = command(spec, ({ values }, io) => {
  const kind = oneOf(['control_key', 'private_key'])(values.kind ?? '', '--kind');
  return addKey(values, io, async () => {
    const { from, 'passphrase-file': passphraseFile } = values;
    const fields = fieldsOf(kind, await readKey(kind, from, io), await readPassphrase(passphraseFile));
    assertUsable(fields, from);
    return fields;
  });
});

function readKey(kind: KeyKind, file: string | undefined, io: Io): Promise<Content> {
  if (file !== undefined) return readFile(file);
  if (!process.stdin.isTTY) return buffer(process.stdin);
  const isControlKey = kind === 'control_key';
  const prompt = isControlKey
    ? 'Control key, then Enter (input hidden):'
    : 'Private key in PEM (input hidden):';
  const end = isControlKey ? /\n$/ : /-----END [A-Z ]*PRIVATE KEY-----\s*$/;
  return promptSecret(
    process.stdin,
    () => io.err(prompt),
    (typed) => end.test(typed),
  );
}

async function readPassphrase(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined;
  const read = secretText(await readFile(file), 'passphrase');
  if ('text' in read) return read.text;
  throw new CliError(`the passphrase (${file}) ${read.fault}. Nothing was written.`);
}

/** A private key replaces the previous one together with its passphrase, even if it has none. */
function fieldsOf(kind: KeyKind, key: Content, passphrase: string | undefined): KeyFields {
  if (kind === 'control_key') return { control_key: textIn(key, 'key') };
  const pem = textIn(key, 'pem');
  const whole = typeof pem === 'string' ? pem.replace(/\r?\n$|$/, '\n') : pem;
  return { private_key: whole, passphrase, transit_key: undefined };
}

/** What is written; the content itself if it is no such secret, which then tells why. */
function textIn(content: Content, form: SecretForm): Content {
  const read = secretText(content, form);
  return 'text' in read ? read.text : content;
}

/** @throws CliError that names the file */
function assertUsable(fields: KeyFields, from = 'standard input'): void {
  const places = { control_key: from, private_key: from, passphrase: '--passphrase-file' };
  const [entry] = parseKeys(fields, { version: 0 }, undefined, places);
  if (entry !== undefined && 'problem' in entry) throw new CliError(`${entry.problem}. Nothing was written.`);
}

/**
 * Reads from a terminal with echo off. Checks for completeness after each chunk and not after each line: the rest of
 * a pasted text would go to the shell and into its history.
 *
 * @param printPrompt prints the prompt; called after echo is off
 * @throws CliError for Ctrl-C
 */
export async function promptSecret(
  terminal: Terminal,
  printPrompt: () => void,
  isComplete: (text: string) => boolean,
): Promise<string> {
  terminal.setEncoding('utf8');
  terminal.setRawMode(true);
  try {
    printPrompt();
    let text = '';
    for await (const chunk of terminal) {
      for (const character of String(chunk)) {
        if (character === controlC) throw new CliError('Interrupted. Nothing was written.');
        if (character === controlD) return text;
        text = typed(text, character);
      }
      if (isComplete(text)) return text;
    }
    return text;
  } finally {
    terminal.setRawMode(false);
  }
}

/** Raw mode leaves this to us: Enter is a carriage return, and backspace is a character. */
function typed(text: string, character: string): string {
  if (backspaces.includes(character)) return text.slice(0, -1);
  return text + (character === '\r' ? '\n' : character);
}
