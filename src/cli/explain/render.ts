import { hostOf, isLoopback } from '../../config/url.ts';
import type { Destination } from '../../gateway/router.ts';
import type { UsableKey } from '../../keys/ring.ts';
import { encodePairs, joinPairs } from '../../oauth1/parameters.ts';
import { authorizationHeader, prepare, type Signer, type Unsigned } from '../../oauth1/sign.ts';
import { redactBaseString, redactParameters } from '../../redact-card-data.ts';

/** Characters shown before and after the first difference. */
const context = 24;

interface Explanation {
  readonly destination: Destination;
  readonly login: string;
  readonly unsigned: Unsigned;
  readonly key: UsableKey;
  readonly signer: Signer;
  readonly curl: boolean;
  readonly showValues: boolean;
}

/** The signing steps of a request (docs/gateway-interface.md section 5.1) as lines to print, and the base string. */
export async function renderExplanation(
  explained: Explanation,
): Promise<{ lines: string[]; baseString: string }> {
  const { destination, login, unsigned, key, signer, curl, showValues } = explained;
  const parameters = showValues ? (text: string) => text : redactParameters;
  const prepared = prepare(unsigned);
  const isShown = mayShowSignature(destination);
  const signature = isShown ? await signer(prepared.baseString) : 'hidden';
  const header = authorizationHeader(prepared.oauth, signature);
  const lines = [
    `Request      POST ${destination.url.href}`,
    `             environment ${destination.environment}, operation ${destination.operation.name}, login ${login}`,
    '',
    'Form parameters, decoded and re-encoded (RFC 3986), in the order sent',
    ...list(parameters(joinPairs(encodePairs(unsigned.form)))),
    '',
    'Form and OAuth parameters, sorted by encoded name, then value',
    ...list(parameters(prepared.normalizedParameters)),
    '',
    'Base string',
    `  ${showValues ? prepared.baseString : redactBaseString(prepared.baseString)}`,
    '',
    `Key          ${unsigned.signatureMethod} with the ${describeSigningKey(key)}`,
    '',
    'Header',
    `  Authorization: ${header}`,
    '',
    ...(isShown ? [] : hidden),
  ];
  if (!curl || !isShown) return { lines, baseString: prepared.baseString };
  const command = [
    `curl -X POST '${destination.url.href}' \\`,
    `  -H 'Authorization: ${header}' \\`,
    `  --data-raw '${parameters(prepared.body)}'`,
    '',
  ];
  return { lines: [...lines, ...command], baseString: prepared.baseString };
}

/**
 * Anyone with the signature of a payment can make it, without a grant, an audit record and an outcome. A query changes
 * nothing, and a gateway on loopback is a simulator.
 */
function mayShowSignature({ operation, url }: Destination): boolean {
  return operation.readOnly || isLoopback(hostOf(url));
}

const hidden = [
  'The signature is hidden, and there is no curl command: with it, anyone could send this request to the gateway, without a',
  'grant and without an audit record. It is shown for read-only operations, and for a gateway on loopback.',
  '',
];

function list(parameters: string): string[] {
  return parameters === '' ? ['  (none)'] : parameters.split('&').map((pair) => `  ${pair}`);
}

function describeSigningKey({ kind, key, version, fingerprint, createdAt }: UsableKey): string {
  const since = createdAt === undefined ? '' : `, created ${createdAt.toISOString()}`;
  return kind === 'control_key'
    ? `control key, version ${version}${since}`
    : `RSA key${'publicKey' in key ? ` in Vault (Transit key ${key.name}, version ${key.keyVersion})` : ''}, version ${version}${since}\n             public key SHA-256 ${fingerprint}`;
}

/** Compares two base strings. The lines show the first difference and its usual cause. */
export function compareBaseStrings(ours: string, theirs: string): { equal: boolean; lines: string[] } {
  if (ours === theirs) return { equal: true, lines: ['The base strings are identical.'] };
  const at = firstDifference(Buffer.from(ours), Buffer.from(theirs));
  return {
    equal: false,
    lines: [
      `The first difference is at byte ${at} (counted from 0), ${describePosition(redactBaseString(ours), at)}:`,
      `  ours      ${excerpt(redactBaseString(ours), at)}`,
      `  expected  ${excerpt(redactBaseString(theirs), at)}`,
      `            ${' '.repeat(Math.min(at, context))}^`,
      ...hints(ours, theirs, at),
    ],
  };
}

function firstDifference(a: Buffer, b: Buffer): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at += 1;
  return at;
}

function excerpt(text: string, at: number): string {
  return text.slice(Math.max(0, at - context), at + context);
}

/** Names the part of the base string and, in the third part, the parameter. */
function describePosition(text: string, at: number): string {
  const before = text.slice(0, at).split('&');
  if (before.length === 1) return 'in the method';
  if (before.length === 2) return 'in the URL';
  const start = text.indexOf('&', text.indexOf('&') + 1) + 1;
  const index = (text.slice(start, at).match(/%26/g) ?? []).length;
  const name = text.slice(start).split('%26')[index]?.split('%3D')[0] ?? '';
  return `in parameter ${index + 1} in sorted order, "${name}"`;
}

/** Common mistakes of signers, most likely first. */
function hints(ours: string, theirs: string, at: number): string[] {
  const mine = ours.slice(Math.max(0, at - 4), at + 6);
  const other = theirs.slice(Math.max(0, at - 4), at + 6);
  const hints: [boolean, string][] = [
    [ours.toLowerCase() === theirs.toLowerCase(), 'They differ only in case: %XX must be uppercase.'],
    [
      /^[^&]*&[^&]*%3A(80|443)(%2F|&)/.test(theirs),
      'The expected URL includes its default port: RFC 5849 omits it.',
    ],
    [
      mine.includes('%2520') && other.includes('%2B'),
      'Encode spaces as %20 (doubly encoded %2520), not as +.',
    ],
    [
      /oauth_timestamp%3D\d{13}\b/.test(theirs),
      'The expected timestamp is in milliseconds: it must be in seconds.',
    ],
    [
      theirs.includes('oauth_signature%3D'),
      'The expected base string contains oauth_signature, which is not signed.',
    ],
    [
      /[!'()*]/.test(theirs.slice(at, at + 1)),
      `"${theirs.slice(at, at + 1)}" is reserved and must be encoded.`,
    ],
    [
      ours.length < theirs.length && ours === theirs.slice(0, ours.length),
      'The expected base string is longer.',
    ],
  ];
  return hints.filter(([applies]) => applies).map(([, hint]) => `Hint: ${hint}`);
}
