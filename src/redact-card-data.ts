/** Parameters of interface section 4.3 that hold card data, and their common spellings. */
const cardFields =
  /^(credit_card_number|destination-card-no|card_?-?number|pan|cvv2?|cvc2?|expire_(month|year)|card_printed_name)$/i;
/** 13 to 19 digits (ISO/IEC 7812), also with a space or the like between them, anywhere in a text. */
const cardNumber = /\d(?:[ +.-]?\d){12,18}/;

/**
 * Encoded parameters joined by `&`, with card data masked. The length stays, so positions in a masked text are
 * positions in the real one.
 */
export function redactParameters(text: string): string {
  return redactJoined(text, '&', '=');
}

/**
 * A base string, masked in the same way: ours, or somebody else's that may be wrong in any way. Where it has
 * not the form of one, or a parameter in it has not, nobody can tell what is in it, and that part is hidden.
 */
export function redactBaseString(text: string): string {
  const [method, url, parameters, ...more] = text.split('&');
  if (parameters === undefined || more.length > 0) return redact(text);
  return [method, url, redactJoined(parameters, '%26', '%3D')].join('&');
}

function redactJoined(text: string, between: string, equals: string): string {
  return text
    .split(between)
    .map((pair) => {
      const at = pair.indexOf(equals);
      if (at === -1) return redact(pair);
      const [name, value] = [pair.slice(0, at), pair.slice(at + equals.length)];
      return `${redactName(name)}${equals}${holdsCardData(decoded(name), decoded(value)) ? redact(value) : value}`;
    })
    .join(between);
}

function redactName(name: string): string {
  return cardNumber.test(decoded(name)) ? redact(name) : name;
}

/** The OAuth parameters are made by signers; a nonce may well hold as many digits as a card number. */
function holdsCardData(name: string, value: string): boolean {
  return cardFields.test(name) || (!name.startsWith('oauth_') && cardNumber.test(value));
}

/** Escapes are hidden too: a wrong signer may have encoded the digits. */
function redact(text: string): string {
  return text.replace(/[^%&=\s]/g, 'x');
}

/** However often it was encoded: too often is what somebody may be looking for. */
function decoded(text: string): string {
  let now = text;
  for (let before = ''; now !== before; ) {
    before = now;
    now = now.replace(/(?:%[0-9A-Fa-f]{2})+/g, decodedOctets);
  }
  return now;
}

function decodedOctets(octets: string): string {
  return Buffer.from(octets.replaceAll('%', ''), 'hex').toString('utf8');
}
