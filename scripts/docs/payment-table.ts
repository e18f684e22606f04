import { type StatusRowName, statusRows } from '../../src/gateway/payment-status.ts';
import { code, table } from './markdown.ts';

/** The orders of the demo that show a row. */
const demoOrders: Readonly<Record<StatusRowName, readonly string[]>> = {
  'later stage': [],
  refunded: [],
  'not refunded': [],
  approved: ['order-7'],
  declined: ['declined', 'filtered'],
  'in error': ['in-error'],
  ambiguous: ['ambiguous'],
  unknown: ['unknown'],
  'not found': ['found-later', 'never-made'],
  processing: ['processing-at-first', 'chain-declined', 'processing'],
  'no response': ['no-status-at-first', 'no-status'],
};

/** What the query of a payment's status says, and what to do. */
export function paymentTable(): string {
  const heads = [
    'the query says',
    'how to recognize it',
    'within 15 minutes',
    'after 15 minutes',
    'in the demo',
  ];
  const rows = Object.entries(statusRows).map(([name, row]) => {
    const late = 'late' in row ? textOf(row.late) : '';
    const orders = Object.entries(demoOrders).flatMap(([of, ids]) => (of === name ? ids : []));
    return [`**${name}**`, row.recognizedBy, textOf(row.advice), late, orders.map(code).join(', ') || '-'];
  });
  return table(heads, rows);
}

function textOf({ decision, text }: { readonly decision: string; readonly text: string }): string {
  return `${decision.replace('-', ' ')}: ${text}`;
}
