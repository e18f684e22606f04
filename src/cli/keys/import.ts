import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { type KeyFields, parseKeys } from '../../keys/key.ts';
import type { KeyKind } from '../../oauth1/methods.ts';
import { type SecretForm, secretText } from '../../util/secret-text.ts';
import { CliError } from '../shared/cli-error.ts';
import { command, type Io, oneOf } from '../shared/command.ts';
import { commonOptions } from './options.ts';
import { addKey, addOptions } from './write.ts';

type Content = Uint8Array | string;

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
  return kind === 'control_key'
    ? promptSecret(() => io.err('Control key, then Enter (input hidden):'), /^/)
    : promptSecret(
        () => io.err('Private key in PEM, then Enter (input hidden):'),
        /-----END [A-Z ]*PRIVATE KEY-----/,
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
 * Lines typed or pasted at the terminal, which shows nothing of them. What comes in one piece with the last line is
 * taken too: the rest of a pasted text would go to the shell and into its history.
 *
 * @param prompt called when nothing is shown any more
 * @param lastLine how the last line looks
 * @throws CliError for Ctrl-C
 */
export async function promptSecret(prompt: () => void, lastLine: RegExp): Promise<string> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input: process.stdin, output: nowhere, terminal: true, historySize: 0 });
  let text = '';
  const { promise: ended, resolve, reject } = Promise.withResolvers<void>();
  terminal.on('line', (line) => {
    text += `${line}\n`;
    if (lastLine.test(line)) resolve();
  });
  terminal.once('close', resolve);
  terminal.once('SIGINT', () => reject(new CliError('Interrupted. Nothing was written.')));
  try {
    prompt();
    await ended;
    return text;
  } finally {
    terminal.close();
  }
}
