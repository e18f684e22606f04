import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import type { KeyFields } from '../../keys/key.ts';
import type { KeyKind } from '../../oauth1/methods.ts';
import { Secret } from '../../secret.ts';
import { CliError } from '../shared/cli-error.ts';
import { exitCode, type Io } from '../shared/io.ts';
import { parseOptions } from '../shared/parse-options.ts';
import { promptSecret } from '../shared/prompt.ts';
import { commonOptions, commonUsage, loginRefOf, withKeysContext, withVaultAdmin } from './options.ts';
import {
  addOptions,
  addUsage,
  checkAndSet,
  checkNewFile,
  reportWritten,
  validateNewKey,
  versionToExtend,
} from './write.ts';

const usage = `Usage: countersign keys import --config FILE --environment NAME --login LOGIN --kind KIND [options]

Writes a key that somebody else made to Vault, as a new version of the login's secret; its other fields
stay. The key is read from standard input, at a terminal without being shown; it is never an argument.
A key that could not be used is refused, and nothing is written.

${commonUsage}
  --kind KIND         control_key, or private_key (RSA, PEM: PKCS#1 or PKCS#8)
  --from FILE         the key, instead of standard input
  --passphrase-file FILE  passphrase of an encrypted private key; goes to Vault beside it
${addUsage}`;

const options = {
  ...commonOptions,
  ...addOptions,
  kind: { type: 'string' },
  from: { type: 'string' },
  'passphrase-file': { type: 'string' },
} as const;

export async function importKey(argv: readonly string[], io: Io): Promise<number> {
  const read = parseOptions('keys import', argv, options, usage, io);
  if ('exit' in read) return read.exit;
  const { values } = read;
  const { kind } = values;
  if (kind !== 'control_key' && kind !== 'private_key') {
    throw new CliError('--kind is control_key or private_key', exitCode.usage);
  }
  return withKeysContext(values, io, (place) =>
    withVaultAdmin(place, async (store) => {
      const address = loginRefOf(place, values);
      await checkNewFile(values['public-key']);
      const before = await versionToExtend(store, address, values);
      const given = withoutLineBreak(await keyText(kind, values.from, io));
      const fields = fieldsOf(kind, given, await passphraseIn(values['passphrase-file']));
      const facts = validateNewKey(fields);
      const version = await checkAndSet(address, before, () => store.write(address, hidden(fields), before));
      return reportWritten({ ...facts, address, version, previousVersion: before }, values, io);
    }),
  );
}

function keyText(kind: KeyKind, file: string | undefined, io: Io): Promise<string> {
  if (file !== undefined) return readFile(file, 'utf8');
  if (!process.stdin.isTTY) return text(process.stdin);
  const isControlKey = kind === 'control_key';
  const prompt = isControlKey ? 'Control key, then Enter (not shown):' : 'Private key in PEM (not shown):';
  const end = isControlKey ? /\n$/ : /-----END [A-Z ]*PRIVATE KEY-----\s*$/;
  return promptSecret(
    process.stdin,
    () => io.err(prompt),
    (typed) => end.test(typed),
  );
}

async function passphraseIn(file: string | undefined): Promise<string | undefined> {
  return file === undefined ? undefined : withoutLineBreak(await readFile(file, 'utf8'));
}

/** A private key takes the place of the one before together with its passphrase, also when it has none. */
function fieldsOf(kind: KeyKind, given: string, passphrase: string | undefined): KeyFields {
  if (kind === 'private_key') return { private_key: `${given}\n`, passphrase };
  if (!/[\r\n]|^-----BEGIN/.test(given)) return { control_key: given };
  throw new CliError('a control key is one line; this looks like something else. Nothing was written.');
}

function hidden(fields: KeyFields): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      typeof value === 'string' ? new Secret(value) : value,
    ]),
  );
}

/** What ends a file or a line is not part of what is in it. */
function withoutLineBreak(content: string): string {
  return content.replace(/\r?\n$/, '');
}
