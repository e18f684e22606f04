/** The characters of the name of a login, an endpoint or an endpoint group. */
export const identifierCharacters = 'A-Z a-z 0-9 . _ ~ @ -';

/** Such a name: 1 to 128 of these, but not `.` or `..`, which have a special meaning in a path. */
export const identifierPattern = /^(?!\.{1,2}$)[A-Za-z0-9._~@-]{1,128}$/;

/** A valid name of an environment: part of the paths of requests, files and Vault, and a label of metrics. */
export const environmentPattern = /^[a-z][a-z0-9-]{0,31}$/;

/**
 * The name of a parameter as part of an error: ` ("amount")`, or nothing unless it is a word with at most two digits. What
 * was sent in the place of a name may be card data.
 */
export function shownName(name: string): string {
  return isWord(name, 64) ? ` ("${name}")` : '';
}

/** Whether a name is a word with at most two digits. */
export function isWord(name: string, maxLength: number): boolean {
  return name.length <= maxLength && /^[A-Za-z][A-Za-z_.-]*(?:\d[A-Za-z_.-]*){0,2}$/.test(name);
}

/** The two spellings of the parameter with the order ID of the merchant (docs/gateway-interface.md section 4.3). */
export const orderIdNames: readonly string[] = ['client_orderid', 'client-order-id'];

/** The order IDs in a form, in either spelling. */
export function orderIdsIn(form: readonly (readonly [name: string, value: string])[]): string[] {
  return form.filter(([name]) => orderIdNames.includes(name)).map(([, value]) => value);
}

/** Whether a text is the pattern, or begins with it where the pattern ends with `*`. */
export function matchesPattern(pattern: string, text: string): boolean {
  return pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : text === pattern;
}
