/** What stands in the place of a private key in PEM, and what to do. The first that matches counts. */
const others: readonly (readonly [pattern: RegExp, fault: string])[] = [
  [
    /-----BEGIN OPENSSH PRIVATE KEY-----/,
    'is in the format of OpenSSH; convert a copy of it: ssh-keygen -p -m PEM -f FILE',
  ],
  [
    /^PuTTY-User-Key-File-/m,
    'is in the format of PuTTY; convert it: puttygen FILE -O private-openssh, then ssh-keygen -p -m PEM',
  ],
  [/-----BEGIN PGP /, 'is a PGP key; an RSA private key in PEM is needed'],
  [
    /-----BEGIN (?:RSA )?PUBLIC KEY-----|---- BEGIN SSH2 PUBLIC KEY ----|^(?:ssh|ecdsa)-[\w-]+ AAAA/m,
    'is a public key; store the private key that belongs to it',
  ],
  [
    /-----BEGIN (?:NEW )?CERTIFICATE REQUEST-----/,
    'is a certificate request; store the private key that belongs to it',
  ],
  [
    /-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----/,
    'is a certificate; store the private key that belongs to it',
  ],
  [/^\s*[[{]/, 'looks like JSON; store the PEM text alone, with its line ends'],
];

const begin = /-----BEGIN (?:RSA |EC |DSA |ENCRYPTED )?PRIVATE KEY-----/;

/** Why a text is no PEM private key, as the rest of a sentence; `undefined` if it may be one. Has nothing of the text. */
export function pemFault(text: string): string | undefined {
  if (begin.test(text)) return layoutFault(text);
  const other = others.find(([pattern]) => pattern.test(text));
  return (
    other?.[1] ??
    base64Fault(text) ??
    'is not a PEM private key; store the file of the key whole, from its first line to its last'
  );
}

/** The lines of PEM (RFC 7468 section 3). */
function layoutFault(text: string): string | undefined {
  // Before it there may be text, such as attributes with a path of Windows.
  const block = text.slice(text.search(begin)).replace(/(-----END [A-Z ]*PRIVATE KEY-----)[^]*$/, '$1');
  if (/\\[nr]/.test(block))
    return `has its line ends written as the two characters \\n; store it with real line ends: printf '%b' "$KEY" > FILE`;
  if (!/-----END [A-Z ]*PRIVATE KEY-----/.test(text))
    return 'has no line -----END ... PRIVATE KEY-----: it was cut off; store all of it';
  if (/[^\n]-----(?:BEGIN|END) [A-Z ]*PRIVATE KEY-----|PRIVATE KEY-----[ \t]*[^\s]/.test(text))
    return 'has lost its line ends, or has others around them: -----BEGIN and -----END must be lines of their own; store it as the file was';
  return undefined;
}

/** PEM, or DER, in base64 once more: Kubernetes shows a secret like that, and tools for secrets store it like that. */
function base64Fault(text: string): string | undefined {
  const joined = text.replaceAll(/\s/g, '');
  if (!/^[\w+/-]{32,}={0,2}$/.test(joined)) return undefined;
  const bytes = Buffer.from(joined, 'base64');
  const inner = bytes.toString('latin1');
  if (inner.includes('-----BEGIN ') || inner.startsWith('LS0tLS1CRUdJTi'))
    return 'is PEM in base64 once more; decode it: base64 -d FILE';
  if (bytes[0] === 0x30 && bytes.length > 64)
    return 'is base64 without the lines -----BEGIN and -----END; store it as PEM: base64 -d FILE | openssl pkey -inform DER';
  return undefined;
}

/** Whether it begins as DER does (a SEQUENCE whose length has two bytes): a key in DER, or PKCS#12. */
export function isDer(content: Uint8Array): boolean {
  return content[0] === 0x30 && content[1] === 0x82;
}
