import { ProxyError } from '../errors.ts';
import { orderIdNames, orderIdsIn, shownName } from '../identifiers.ts';
import { controlName, minorUnits } from './control.ts';
import { coveredBy, type Operation, verifyCallback } from './operations.ts';

/**
 * Checks the parameters of an operation: none may be one that Countersign adds, required ones must be present once and not
 * empty, none may be too long (in characters, docs/gateway-interface.md section 8), amounts that a control covers must fit
 * their currency, and none may be repeated unless the operation allows it. Either spelling of the order ID counts as both.
 *
 * @throws ProxyError `reserved-parameter`, `parameter-invalid`; names parameters of the table and plain words, never a value
 */
export function validateParameters(
  operation: Operation,
  form: readonly (readonly [name: string, value: string])[],
): void {
  const hasControl = operation.signature === 'SHA1-control' && operation.name !== verifyCallback;
  const isAdded = hasControl ? isReserved : isOAuth;
  const reserved = form.findIndex(([name]) => isAdded(name));
  if (reserved !== -1) throw reservedName(reserved + 1, form[reserved]?.[0] ?? '');
  if (operation.name === verifyCallback) rejectLookAlikes(operation, form);
  const byName = Map.groupBy(form, ([name]) => name);
  const spellings = orderIdNames.filter((name) => byName.has(name));
  if (spellings.length > 1 && new Set(orderIdsIn(form)).size > 1) {
    throw invalid(`${spellings.map((name) => `"${name}"`).join(' and ')} are different. Send one order ID.`);
  }
  for (const [name, rule] of Object.entries(operation.parameters)) {
    const sentAs = orderIdNames.includes(name) ? (spellings[0] ?? name) : name;
    const [first, ...others] = byName.get(sentAs) ?? [];
    if (others.length > 0) throw invalid(`"${sentAs}" appears ${others.length + 1} times. Send it once.`);
    const value = first?.[1];
    if (rule.required && (value === undefined || value === '')) throw missing(name, form);
    if (value !== undefined && rule.maxLength !== undefined && Array.from(value).length > rule.maxLength) {
      throw invalid(`"${sentAs}" has more than ${rule.maxLength} characters.`);
    }
    if (rule.minorUnitsOf !== undefined && value === undefined && byName.has(rule.minorUnitsOf)) {
      throw invalid(
        `"${rule.minorUnitsOf}" is there without "${name}". Send both, or neither for the whole amount.`,
      );
    }
    if (rule.minorUnitsOf !== undefined && value !== undefined) {
      const currency = byName.get(rule.minorUnitsOf)?.[0]?.[1];
      if (minorUnits(value, currency) === undefined) throw invalid(notAnAmount(name, rule.minorUnitsOf));
    }
  }
  if (!operation.allowRepeatedParameters && byName.size < form.length) {
    throw invalid(
      'A parameter name appears more than once, and the gateway may take either value. Send each parameter once.',
    );
  }
}

/**
 * A service may read names leniently, as PHP does: ` status`, `Status` and `status[]` as `status`; or split at `;` too, as
 * old libraries do. Beside a covered parameter such a name would be taken for it, and be anybody's.
 */
function rejectLookAlikes(
  { control = [] }: Operation,
  form: readonly (readonly [name: string, value: string])[],
): void {
  const covered = [...coveredBy(control), controlName];
  const known = new Set(covered.flatMap(plainNames));
  const text = form.map((pair) => pair.join('=')).join('&');
  if (text.split(';', maxSplits + 1).length > maxSplits)
    throw invalid(`It has ${maxSplits} ";" or more. Ignore this callback.`);
  const at = form.findIndex(([name, value]) => {
    const [, ...parts] = `${name}=${value}`.split(';');
    const others = new Set(parts.flatMap((part) => part.split('=', 1)));
    if (!covered.includes(name)) others.add(name);
    return [...others].some((other) => plainNames(other).some((read) => known.has(read)));
  });
  if (at === -1) return;
  throw invalid(`Parameter ${at + 1} could be taken for one that the control covers. Ignore this callback.`);
}

/** Pieces between `;` of all parameters. What follows each of them is looked at as a name. */
const maxSplits = 1_000;

/**
 * What may be read of a name: PHP ends it at a zero byte, and at `[` if `]` follows; without that, `[` is one more `_`. Old
 * versions of Rack read `[status]` as `status`.
 */
function plainNames(name: string): string[] {
  return [name, ...name.split('\0', 1), ...(name.match(/[^\0[\]]+/) ?? [])].map((read) =>
    visible(read)
      .trim()
      .replaceAll(/[.\s[]/g, '_')
      .toLowerCase(),
  );
}

function notAnAmount(amount: string, currency: string): string {
  return `"${amount}" and "${currency}" are no amount. Send digits such as 10.42, with no more decimals than the currency has, and its three letters, such as EUR.`;
}

/** Names the position of one that is spelled differently, never its name. */
function missing(name: string, form: readonly (readonly [name: string, value: string])[]): ProxyError {
  const known = orderIdNames.includes(name) ? orderIdNames : [name];
  const at = form.findIndex(([other]) => !known.includes(other) && lettersOf(other) === lettersOf(name));
  const hint =
    at === -1 ? '' : ` Parameter ${at + 1} is spelled differently: send it with exactly this name.`;
  return invalid(`"${name}" is required.${hint}`);
}

function lettersOf(name: string): string {
  return name
    .slice(0, 64)
    .replace(/[^a-z]/gi, '')
    .toLowerCase();
}

/**
 * Whether a gateway that parses names leniently could treat this one as an OAuth parameter: after trimming, case
 * folding, removal of invisible characters, and with `.`, whitespace or `[` treated as `_`, as PHP does.
 */
function isOAuth(name: string): boolean {
  return /^oauth[_.[\s]/i.test(startOf(name));
}

/** As {@link isOAuth}, also for the control. */
function isReserved(name: string): boolean {
  return isOAuth(name) || reservedControl.test(startOf(name));
}

const reservedControl = new RegExp(`^${controlName}(\\s*$|\\[)`, 'i');

/** What such a gateway could read at the start of a name. */
function startOf(name: string): string {
  // Most names, and nothing below changes them.
  if (/^[\w-]*$/.test(name)) return name;
  // Cut first: for a run of combining marks `normalize` takes quadratic time.
  return visible(visible(name).slice(0, prefixUnits).normalize('NFKC'));
}

/** UTF-16 units of "control", and one more. No character of it is written with more than one, of two units. */
const prefixUnits = 16;

function reservedName(position: number, name: string): ProxyError {
  return new ProxyError(
    'reserved-parameter',
    `Parameter ${position}${shownName(name)} is one that Countersign adds, or a gateway could take it for one. Send the form without it, and without others whose names start with "oauth_" or a similar prefix.`,
  );
}

function visible(name: string): string {
  return name.replace(invisible, '').trimStart();
}

/** Control, zero-width and formatting characters, the byte order mark, and unassigned code points. */
const invisible = /[\p{C}\p{Default_Ignorable_Code_Point}]/gu;

function invalid(detail: string): ProxyError {
  return new ProxyError('parameter-invalid', detail);
}
