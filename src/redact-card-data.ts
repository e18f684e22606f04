/** Parameters with card data (docs/gateway-interface.md section 4.3), and their common spellings. */
const cardFields =
  /^(credit_card_number|destination-card-no|card_?-?number|pan|cvv2?|cvc2?|expire_(month|year)|card_printed_name)$/i;
/** 13 to 19 digits (ISO/IEC 7812), with or without separators, anywhere in a text. */
const cardNumber = /\d(?:[\s+.,/_-]{0,2}\d){12,18}/;
const percent = 0x25;
/** The value of each octet that is a hexadecimal digit. */
const hexValues: ReadonlyMap<number, number> = new Map(
  Array.from('0123456789abcdefABCDEF', (digit) => [digit.charCodeAt(0), Number.parseInt(digit, 16)]),
);

/**
 * Redacts card data in encoded parameters joined by `&`. Keeps the length, so positions in the redacted text are valid
 * in the original.
 */
export function redactParameters(text: string): string {
  return redactJoined(text, '&', '=');
}

/**
 * Redacts a base string in the same way. A foreign base string may be malformed: a part that cannot be parsed is redacted
 * completely.
 */
export function redactBaseString(text: string): string {
  const [method, url, parameters, ...more] = text.split('&');
  if (parameters === undefined || more.length > 0) return redact(text);
  return [method, redactText(url ?? ''), redactJoined(parameters, '%26', '%3D')].join('&');
}

/** Redacts card data in one parameter, encoded or not. */
export function redactParameter(name: string, value: string): [name: string, value: string] {
  return [redactText(name), holdsCardData(decode(name), decode(value)) ? redact(value) : value];
}

/** Redacts a text that contains a card number. */
export function redactText(text: string): string {
  return cardNumber.test(decode(text)) ? redact(text) : text;
}

function redactJoined(text: string, separator: string, equals: string): string {
  return text
    .split(separator)
    .map((pair) => {
      const at = pair.indexOf(equals);
      if (at === -1) return redact(pair);
      return redactParameter(pair.slice(0, at), pair.slice(at + equals.length)).join(equals);
    })
    .join(separator);
}

/** OAuth parameters come from the signer; a nonce may contain as many digits as a card number. */
function holdsCardData(name: string, value: string): boolean {
  return cardFields.test(name) || (!name.startsWith('oauth_') && cardNumber.test(value));
}

/** Also redacts percent-escapes: a faulty signer may have encoded the digits. */
function redact(text: string): string {
  return text.replace(/[^%&=\s]/g, 'x');
}

/**
 * Decodes repeatedly: the text may have been encoded too often. Each escape is decoded once it is complete, which may
 * complete the one before it, so that the time is linear.
 */
function decode(encoded: string): string {
  if (!encoded.includes('%')) return encoded;
  const octets = Buffer.from(encoded);
  let length = 0;
  for (const octet of octets) {
    octets[length] = octet;
    length += 1;
    while (octets[length - 3] === percent) {
      const high = hexValues.get(octets[length - 2] ?? 0);
      const low = hexValues.get(octets[length - 1] ?? 0);
      if (high === undefined || low === undefined) break;
      octets[length - 3] = high * 16 + low;
      length -= 2;
    }
  }
  return octets.toString('utf8', 0, length);
}

const minDigits = 13;
const maxDigits = 19;
const zero = 0x30;

/**
 * Whether the text contains digits that could be a card number (ISO/IEC 7812-1): 13 to 19 digits, the last of them the
 * Luhn check digit, also in groups with the separators that a login or an order ID can contain. For what has to be readable unless it
 * is a card number; what need not be readable is redacted without the check digit, mistyped numbers included.
 */
export function holdsCardNumber(text: string): boolean {
  // Most texts are a short login, and `matchAll` makes a new expression each time.
  return text.length >= minDigits && isCardNumberIn(text.matchAll(/\d(?:[._~@-]*\d){12,}/g), /\D+/);
}

/** Unix time in seconds to nanoseconds, in milliseconds also with a counter after it, and date with time; until 2033 or later. */
const time =
  /(?<!\d)(?:(?:1[4-9]|2[01])\d{8}(?:\d{3}){0,3}|1[7-9]\d{14,17}|20[1-3]\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])(?:[0-5]\d){2}(?:\d{3})?)(?!\d)/g;

const uuid = /(?<![a-z\d])[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}(?![a-z\d])/gi;

/** Random bits as programs write them besides. */
const hexId = /(?<![a-z\d])(?:[\da-f]{16}|[\da-f]{24}|[\da-f]{32})(?![a-z\d])/gi;

/** Random hex digits have letters among them; a number that zeros or a letter fill up has not. */
function isRandom(hex: string): boolean {
  return /[a-f]/i.test(hex.replaceAll('-', '').replace(/^([a-f])\1*|([a-f])\2*$/gi, ''));
}

/** An ID that programs make, without what in it is random or a time: digits that mean nothing else. */
export function meaningOfId(id: string): string {
  return withoutUuidsAndTimes(id.replace(hexId, withoutRandom));
}

function withoutUuidsAndTimes(id: string): string {
  return id.replace(uuid, withoutRandom).replace(time, 'time');
}

function withoutRandom(hex: string): string {
  return isRandom(hex) ? 'random' : hex;
}

/** By first digits, the lengths of the numbers that card networks issue. Rather too many than too few. */
const issued =
  /^(?:4(?:.{12}|.{15}|.{18})|(?:5[1-5]|2[2-7]).{14}|3[47].{13}|3[0689].{12,17}|1.{14}|(?:50[123]|589|630|67).{10,})$|^(?=.{16})(?:35|5[06-9]|6|8[1268]|97|98)/;

/** Whether an ID that programs make contains digits that could be a card number. */
export function idHoldsCardNumber(id: string): boolean {
  return holdsIssuedNumber(meaningOfId(id));
}

/** Also within a longer run of digits, such as a number that zeros fill up. */
function holdsIssuedNumber(text: string): boolean {
  const isIssued = (number: string): boolean => issued.test(number);
  const inGroups = isCardNumberIn(text.matchAll(/\d(?:[._-]*\d){12,}/g), /\D+/, isIssued);
  return inGroups || isCardNumberIn(text.matchAll(/\d{13,}/g), '', isIssued);
}

/** Written in place of what looks like a card number. */
export const redactedNumber = '[redacted: looks like a card number]';

/**
 * An order ID, unless it may hold a card number: also encoded, with any characters between its digits, or among hex digits,
 * since a merchant may have made it of a card number and random bits.
 */
export function redactOrderId(id: string): string {
  return holdsIssuedNumber(withoutUuidsAndTimes(decode(id).replace(/[^A-Za-z0-9]+/g, '-')))
    ? redactedNumber
    : id;
}

/**
 * @param separator of the groups of digits that a card number may begin and end with
 * @param isPossible what else a card number has, besides its check digit
 */
function isCardNumberIn(
  runs: Iterable<RegExpMatchArray>,
  separator: RegExp | string,
  isPossible?: (number: string) => boolean,
): boolean {
  for (const [run] of runs) {
    const groups = run.split(separator);
    if (groups.some((_, first) => isCardNumberFrom(first, groups, isPossible))) return true;
  }
  return false;
}

const anyNumber = (_number: string): boolean => true;

/**
 * Whether this group, alone or with those that follow, is a card number. Looks at no more than 19 digits, each of them
 * once: whole request targets pass through here.
 *
 * Luhn: from the right, every second digit counts double, its digits added; the sum is a multiple of ten.
 */
function isCardNumberFrom(first: number, groups: readonly string[], isPossible = anyNumber): boolean {
  let digits = 0;
  // The Luhn sums with the last digit so far counted once and counted double.
  let [once, twice] = [0, 0];
  for (let index = first; index < groups.length; index += 1) {
    const group = groups[index] ?? '';
    digits += group.length;
    if (digits > maxDigits) return false;
    for (let at = 0; at < group.length; at += 1) {
      const digit = group.charCodeAt(at) - zero;
      [once, twice] = [twice + digit, once + digit * 2 - (digit > 4 ? 9 : 0)];
    }
    const isChecked = digits >= minDigits && once % 10 === 0;
    if (isChecked && isPossible(groups.slice(first, index + 1).join(''))) return true;
  }
  return false;
}
