/** Parameters of interface section 4.3 that hold card data, and their common spellings. */
const cardFields =
  /^(credit_card_number|destination-card-no|card_?-?number|pan|cvv2?|cvc2?|expire_(month|year)|card_printed_name)$/i;

/**
 * An encoded parameter with the characters of card data replaced by `x`. The length stays, so positions in a
 * masked text are positions in the real one.
 */
export function maskPair(name: string, value: string): string {
  const isCardData = cardFields.test(decode(name)) || looksLikeCardNumber(decode(value));
  return isCardData
    ? value.replace(/%[0-9A-Fa-f]{2}|[^%]/g, (unit) => (unit.length === 1 ? 'x' : unit))
    : value;
}

/** Encoded parameters joined by `&`, masked. */
export function maskParameters(text: string): string {
  return text
    .split('&')
    .map((pair) => {
      const [name = '', ...rest] = pair.split('=');
      return rest.length === 0 ? name : `${name}=${maskPair(name, rest.join('='))}`;
    })
    .join('&');
}

/** A base string, masked; what has not the form of one is hidden whole, since nobody can tell what is in it. */
export function maskBaseString(text: string): string {
  const [method, url, parameters, ...more] = text.split('&');
  if (parameters === undefined || more.length > 0) return text.replace(/[^%&=\s]/g, 'x');
  return [method, url, maskEncodedOnce(parameters)].join('&');
}

/** In a base string the parameters are encoded a second time: `%3D` stands between name and value. */
function maskEncodedOnce(parameters: string): string {
  return parameters
    .split('%26')
    .map((pair) => {
      const [name = '', ...rest] = pair.split('%3D');
      const value = rest.join('%3D');
      const masked = maskPair(decode(name), decode(value));
      return rest.length === 0
        ? name
        : `${name}%3D${masked === decode(value) ? value : maskPair('cvv2', value)}`;
    })
    .join('%26');
}

/** 13 to 19 digits (ISO/IEC 7812), with or without spaces and hyphens between them. */
function looksLikeCardNumber(text: string): boolean {
  return /^\d{13,19}$/.test(text.replace(/[ -]/g, ''));
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
