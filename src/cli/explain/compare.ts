import { redactBaseString } from '../../redact-card-data.ts';

/** Characters shown before and after the first difference. */
const context = 24;

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
    [theirs.startsWith(ours), 'The expected base string is longer.'],
  ];
  return hints.filter(([applies]) => applies).map(([, hint]) => `Hint: ${hint}`);
}
