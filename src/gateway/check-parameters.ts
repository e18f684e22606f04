import { Refusal } from '../errors.ts';
import type { Operation } from './operations.ts';

/**
 * What may be wrong with an operation's parameters: one of the signature's own, a required one missing or
 * empty, a checked one twice, one too long (counted in characters, as interface section 8 counts them).
 *
 * @throws Refusal `reserved-parameter`, `parameter-invalid`; names parameters of the table, never a value.
 */
export function checkParameters(
  operation: Operation,
  form: readonly (readonly [name: string, value: string])[],
): void {
  if (form.some(([name]) => name.startsWith('oauth_'))) {
    throw new Refusal(
      'reserved-parameter',
      'Parameters whose names start with "oauth_" are added by Countersign. Send the form without them.',
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

function invalid(detail: string): Refusal {
  return new Refusal('parameter-invalid', detail);
}
