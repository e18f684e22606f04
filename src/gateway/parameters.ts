import { ProxyError } from '../errors.ts';
import type { Operation } from './operations.ts';

/**
 * What may be wrong with an operation's parameters: one of the signature's own, a required one missing or
 * empty, a checked one twice, one too long (counted in characters, as interface section 8 counts them).
 *
 * @throws Refusal `reserved-parameter`, `parameter-invalid`; names parameters of the table, never a value.
 */
export function validateParameters(
  operation: Operation,
  form: readonly (readonly [name: string, value: string])[],
): void {
  if (form.some(([name]) => isReserved(name))) {
    throw new ProxyError(
      'reserved-parameter',
      'Parameters whose names start with "oauth_", or could be read so, are added by Countersign. Send the form without them.',
    );
  }
  for (const [name, rule] of Object.entries(operation.parameters)) {
    const values = form.filter(([given]) => given === name).map(([, value]) => value);
    if (values.length > 1) throw invalid(`"${name}" is given ${values.length} times. Send it once.`);
    const [value] = values;
    if (rule.required && (value === undefined || value === '')) throw invalid(`"${name}" is required.`);
    if (value !== undefined && rule.maxLength !== undefined && Array.from(value).length > rule.maxLength) {
      throw invalid(`"${name}" has more than ${rule.maxLength} characters.`);
    }
  }
}

/**
 * Whether a gateway that reads names leniently could take this one for a parameter of the signature: after
 * trimming, case folding, removal of characters that do not show, and with `.`, a blank or `[` read as `_`, as
 * PHP does.
 */
function isReserved(name: string): boolean {
  const visible = name.normalize('NFKC').replace(invisible, '').trimStart();
  return /^oauth[_.[\s]/i.test(visible);
}

/** Control characters, the byte order mark, zero-width and formatting characters, unassigned code points. */
const invisible = /[\p{C}\p{Default_Ignorable_Code_Point}]/gu;

function invalid(detail: string): ProxyError {
  return new ProxyError('parameter-invalid', detail);
}
