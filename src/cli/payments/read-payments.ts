import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { isShownInFull } from '../../gateway/order-id.ts';
import { entriesOf, parseJson } from '../../util/text.ts';
import { CliError, exitCode } from '../shared/cli-error.ts';

/** What a status or a log line says of a payment of unknown outcome. Any of it may be made up. */
export interface UnknownPayment {
  readonly requestId: string;
  /** When it ended: milliseconds since 1970. */
  readonly at: number;
  readonly environment: string;
  readonly operation: string;
  readonly login: string;
  readonly orderId: string;
  readonly statusPath: string;
}

type Entries = Readonly<Record<string, unknown>>;

/**
 * The payments in `/status.json`, indented or not, or in log lines; of other lines, and of what stands before the JSON of
 * one, such as the name of a pod, nothing is taken. Of requests with the same order the first one counts.
 *
 * @param now milliseconds since 1970
 * @throws CliError if there is neither a status nor a log line
 */
export async function readPayments(input: Readable, now: number): Promise<UnknownPayment[]> {
  const payments = new Map<string, UnknownPayment>();
  let isKnown = false;
  for await (const record of recordsIn(input)) {
    const { uncertainPayments: listed, msg, orderId, statusPath } = record;
    isKnown ||= Array.isArray(listed) || msg !== undefined;
    // No other line has one of these two.
    const line = orderId === undefined && statusPath === undefined ? [] : [record];
    for (const one of Array.isArray(listed) ? listed : line) {
      const payment = paymentIn(entriesOf(one), now);
      const { requestId, operation, login, orderId, statusPath } = payment;
      const order = isShownInFull(orderId) ? [statusPath, operation, login, orderId].join(' ') : requestId;
      const known = payments.get(order);
      if (known === undefined || payment.at < known.at) payments.set(order, payment);
    }
  }
  if (isKnown) return [...payments.values()];
  throw new CliError(
    'standard input has neither a status nor log lines of Countersign. Run: countersign status --json | countersign payments query',
    exitCode.usage,
  );
}

async function* recordsIn(input: Readable): AsyncGenerator<Entries> {
  let indented: string[] = [];
  for await (const line of createInterface({ input })) {
    // No line of an indented status is one, and what began like a status may be something else in the log of a pod.
    yield entriesOf(parseJson(line.slice(Math.max(0, line.indexOf('{')))));
    if (line === '{') indented = [line];
    else if (indented.length > 0) indented.push(line);
    if (line !== '}') continue;
    yield entriesOf(parseJson(indented.join('\n')));
    indented = [];
  }
}

function paymentIn(record: Entries, now: number): UnknownPayment {
  const textOf = (name: string): string => (typeof record[name] === 'string' ? record[name] : '');
  const at = Date.parse(textOf('at' in record ? 'at' : 'time'));
  return {
    requestId: textOf('requestId'),
    at: Number.isNaN(at) ? now : at,
    environment: textOf('environment'),
    operation: textOf('operation'),
    login: textOf('login'),
    orderId: textOf('orderId'),
    statusPath: textOf('statusPath'),
  };
}
