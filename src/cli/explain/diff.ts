import { redactBaseString } from '../../redact-card-data.ts';

/** How much of either text is shown around the first difference. */
const context = 24;

/** Lines that say where two base strings part, and what that usually means. */
export function compareBaseStrings(ours: string, theirs: string): { equal: boolean; lines: string[] } {
  if (ours === theirs)
    return { equal: true, lines: ['The expected base string is the same, byte for byte.'] };
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

/** Which of the three parts, and in the third, which parameter. */
function describePosition(text: string, at: number): string {
  const before = text.slice(0, at).split('&');
  if (before.length === 1) return 'in the method';
  if (before.length === 2) return 'in the URL';
  const start = text.indexOf('&', text.indexOf('&') + 1) + 1;
  const index = (text.slice(start, at).match(/%26/g) ?? []).length;
  const name = text.slice(start).split('%26')[index]?.split('%3D')[0] ?? '';
  return `in parameter ${index + 1} in sorted order, "${name}"`;
}

/** What bites signers, in the order in which it is worth looking. */
function hints(ours: string, theirs: string, at: number): string[] {
  const mine = ours.slice(Math.max(0, at - 4), at + 6);
  const other = theirs.slice(Math.max(0, at - 4), at + 6);
  const hints: [boolean, string][] = [
    [
      ours.toLowerCase() === theirs.toLowerCase(),
      'They differ in upper and lower case only: %XX must be upper case.',
    ],
    [
      /^[^&]*&[^&]*%3A(80|443)(%2F|&)/.test(theirs),
      'The expected URL has its default port: RFC 5849 leaves it out.',
    ],
    [
      mine.includes('%2520') && other.includes('%2B'),
      'A space is %20 and then %2520; "+" is only for forms.',
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
      'The expected one goes on after our end.',
    ],
  ];
  return hints.filter(([applies]) => applies).map(([, hint]) => `Hint: ${hint}`);
}
