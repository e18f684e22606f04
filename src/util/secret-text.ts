import { isUtf8 } from 'node:buffer';

/**
 * What may be in a secret, besides that it is one line without outer white space: in a `token` only printable ASCII, in a
 * `key` no invisible characters, in a `passphrase` anything. A `pem` has lines, and its white space is left alone.
 */
export type SecretForm = 'token' | 'key' | 'passphrase' | 'pem';

/** A secret; or what is wrong with it and what to do, as the rest of a sentence. That has nothing of the secret. */
export type SecretText = { readonly text: string } | { readonly fault: string };

const byteOrderMark = '\ufeff';
/** White space, and what is invisible too: at an end of a secret it is a mistake of a tool or of a copy. */
const invisible = '\\s\\p{Cc}\\p{Default_Ignorable_Code_Point}';
const atBegin = new RegExp(`^[${invisible}]`, 'u');
const atEnd = new RegExp(`[${invisible}]$`, 'u');
/** All of these but a blank. */
const within = new RegExp(`(?! )[${invisible}]`, 'u');
/** Base64 that ends in `=` is no name. */
const nameBefore = /^(?:export )?[\w-]{0,40}(?:key|token|secret|[_-]id|password) ?[=:] ?[^=]/i;
/** What templates of shells, Helm, Vault Agent and Consul Template leave where a value is missing. */
const template = /^(?:\$\{.*\}|\{\{.*\}\}|<no value>|null|undefined)$/;
const names: Readonly<Record<string, string>> = {
  '\t': 'a tab',
  '\n': 'a line end',
  '\r': 'a carriage return',
  ' ': 'a blank',
  '\u00a0': 'a no-break space',
  '\u200b': 'a zero-width space',
  [byteOrderMark]: 'a byte order mark',
};

const faults = {
  empty: 'is empty',
  utf16:
    'is in UTF-16 or UTF-32; store it in UTF-8: in PowerShell with "Out-File -Encoding ascii -NoNewline", elsewhere with "iconv -f UTF-16 -t UTF-8"',
  notUtf8: 'is not text in UTF-8; store it again as text',
  damaged: 'has the character U+FFFD, the mark of bytes that a tool could not read; store it again in UTF-8',
  notUnicode: 'is not valid Unicode; store it again in UTF-8',
  json: 'looks like JSON, such as a response of Vault, or the sink of a Vault Agent with wrap_ttl or dh_type; store the value alone: "vault ... -field=NAME", or a sink without these',
  lines: 'has more than one line; store the value alone, in one line',
  pem: 'looks like PEM; store the value alone, in one line',
  named: 'begins with a name, as a line of a .env file does; store the value alone',
  quotes: 'is enclosed in quotation marks; remove them',
  template: 'is the text of a template in which no value was filled in; store the value alone',
  escaped: 'ends with \\n, written as two characters; remove both',
  notAscii: 'has characters that are not printable ASCII; store the value alone',
  misread: 'begins with a byte order mark that was read in another encoding; store it again in UTF-8',
} as const;

/**
 * The one way to read a secret, wherever it comes from. Removes a byte order mark and one line end at the end, which tools
 * add; everything else that is not the secret is refused rather than guessed away.
 */
export function secretText(content: Uint8Array | string, form: SecretForm): SecretText {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  if (isUtf16(bytes)) return { fault: faults.utf16 };
  if (typeof content === 'string' && !content.isWellFormed()) return { fault: faults.notUnicode };
  if (!isUtf8(bytes)) return { fault: faults.notUtf8 };
  const whole = typeof content === 'string' ? content : Buffer.from(content).toString('utf8');
  const marked = whole.startsWith(byteOrderMark) ? whole.slice(1) : whole;
  const text = form === 'pem' ? marked : marked.replace(/\r?\n$/, '');
  const fault = faultOf(text, form);
  return fault === undefined ? { text } : { fault };
}

/** A byte order mark of UTF-16 or UTF-32, or many NUL bytes: every second one of ASCII text, also after a tool misread it. */
function isUtf16(bytes: Uint8Array): boolean {
  const [first = 0, second = 0] = bytes;
  if ((first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)) return true;
  const zeros = bytes.reduce((count, byte) => count + (byte === 0 ? 1 : 0), 0);
  return zeros > 0 && zeros >= bytes.length / 4;
}

function faultOf(text: string, form: SecretForm): string | undefined {
  if (new RegExp(`^[${invisible}]*$`, 'u').test(text)) return faults.empty;
  if (text.startsWith('\u00ef\u00bb\u00bf')) return faults.misread;
  if (text.includes('\ufffd')) return faults.damaged;
  if (form === 'pem') return undefined;
  const isValue = form !== 'passphrase';
  if (isValue && isJson(text)) return faults.json;
  if (isValue && text.includes('-----BEGIN ')) return faults.pem;
  return outerFault(text) ?? (/[\r\n]/.test(text) ? faults.lines : undefined) ?? innerFault(text, form);
}

function outerFault(text: string): string | undefined {
  const [begin] = atBegin.exec(text) ?? [];
  if (begin !== undefined) return `begins with ${nameOf(begin)}; remove it`;
  const [end] = atEnd.exec(text) ?? [];
  return end === undefined ? undefined : `ends with ${nameOf(end)}; remove it`;
}

function innerFault(text: string, form: SecretForm): string | undefined {
  if (form === 'passphrase') return undefined;
  if (nameBefore.test(text)) return faults.named;
  if (/^(["'`]).*\1$|^[‘’“”„«].*[‘’“”»]$/.test(text)) return faults.quotes;
  if (template.test(text)) return faults.template;
  if (text.endsWith('\\n')) return faults.escaped;
  const [odd] = (form === 'token' ? /\s/ : within).exec(text) ?? within.exec(text) ?? [];
  if (odd !== undefined) return `has ${nameOf(odd)} within it; store the value alone`;
  return form === 'token' && !/^[!-~]+$/.test(text) ? faults.notAscii : undefined;
}

function nameOf(character: string): string {
  const number = `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
  const name = names[character];
  return name === undefined ? `the invisible character ${number}` : `${name} (${number})`;
}

/** An object or a list, also one that was cut off. */
function isJson(text: string): boolean {
  return /^(?:\{\s*["}]|\[\s*["{\]])/.test(text.trim());
}
