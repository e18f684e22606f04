import { orderIdsIn } from '../identifiers.ts';
import { redactedNumber, redactOrderId } from '../redact-card-data.ts';
import { printable } from '../util/text.ts';
import type { Operation } from './operations.ts';

const maxLength = 128;

/** More is not looked at. Holds every card number that begins in what is shown. */
const maxRead = 512;

/**
 * The merchant's order ID in a form, as it may be shown: printable, at most 128 characters, redacted if it may hold a card
 * number. It is in the parameter that the operation names, or in either spelling (docs/gateway-interface.md section 4.3).
 */
export function shownOrderId(
  { orderId }: Pick<Operation, 'orderId'>,
  form: readonly (readonly [name: string, value: string])[],
): string | undefined {
  const named = form.flatMap(([name, value]) => (name === orderId ? [value] : []));
  const [id = ''] = [...named, ...orderIdsIn(form)];
  return id === '' ? undefined : printable(redactOrderId(id.slice(0, maxRead))).slice(0, maxLength);
}

/** Whether a shown order ID is the one that was sent, so that its order can be queried by it. */
export function isShownInFull(shown: string): boolean {
  return shown !== '' && shown.length < maxLength && shown !== redactedNumber && !shown.includes('?');
}
