import type { ResponseFields } from './response.ts';

/** What follows for a payment or refund, the most urgent first: `ask-support` means that a person decides. The last four are final. */
export const decisions = [
  'ask-support',
  'query-again',
  'not-refunded',
  'refunded',
  'not-paid',
  'paid',
] as const;
export type Decision = (typeof decisions)[number];

export interface Advice {
  readonly decision: Decision;
  /** Markdown, without a full stop. */
  readonly text: string;
}

interface StatusRow {
  /** Markdown. */
  readonly recognizedBy: string;
  readonly advice: Advice;
  /** In place of `advice` from {@link patience} on. */
  readonly late?: Advice;
}

/** Milliseconds after which a payment that is not decided goes to a person. Our choice. */
export const patience = 15 * 60_000;

/** What the query of a payment's status says, and what to do then: the table of docs/payments.md. */
export const statusRows = {
  'later stage': {
    recognizedBy: '`transaction-type` is `cancel`, `chargeback`, `fraud`, `dispute` or `retrieval`',
    advice: {
      decision: 'ask-support',
      text: 'the status is that of what came after the payment, which was probably approved',
    },
  },
  refunded: {
    recognizedBy: '`transaction-type` is `reversal` or `refund`, and `status=approved`',
    advice: { decision: 'refunded', text: 'done if the refund is yours, else ask support' },
  },
  'not refunded': {
    recognizedBy: '`transaction-type` is `reversal` or `refund`, and `status=declined` or `filtered`',
    advice: { decision: 'not-refunded', text: 'done if the refund is yours, else ask support' },
  },
  approved: {
    recognizedBy: '`status=approved`',
    advice: {
      decision: 'paid',
      text: 'done if `amount` and `currency` are those of your order, else ask support',
    },
  },
  declined: {
    recognizedBy: '`status=declined` or `filtered`',
    advice: {
      decision: 'not-paid',
      text: 'done. Another attempt is a new payment with a new order ID, if the payer still wants it',
    },
  },
  'in error': {
    recognizedBy:
      '`status=error` with an order ID (`gw-order-id`, or `pay-order-id` where the product is `pay`)',
    advice: { decision: 'ask-support', text: 'by `error-message`' },
  },
  ambiguous: {
    recognizedBy: '`status=error` with `error-code=124`',
    advice: { decision: 'ask-support', text: 'there are two orders with this ID' },
  },
  unknown: {
    recognizedBy: '`status=unknown`',
    advice: { decision: 'ask-support', text: 'query every hour meanwhile, since it is not final' },
  },
  'not found': {
    recognizedBy: '`status=error` without an order ID',
    advice: { decision: 'query-again', text: 'it may be found later' },
    late: { decision: 'ask-support', text: '`error-message` says why the order was not created' },
  },
  processing: {
    recognizedBy: '`processing`, `chain_declined` or any other `status`',
    advice: { decision: 'query-again', text: 'it is not final' },
    late: { decision: 'ask-support', text: 'query every hour meanwhile' },
  },
  'no response': {
    recognizedBy:
      "the query's status is not 200, its body has no `status` or two, or two of `transaction-type`, or it is about another order",
    advice: { decision: 'query-again', text: 'nothing is known' },
    late: { decision: 'ask-support', text: 'query again when the gateway responds' },
  },
} as const satisfies Readonly<Record<string, StatusRow>>;

export type StatusRowName = keyof typeof statusRows;

/** Each `transaction-type` of what comes after a payment (docs/gateway-interface.md sections 3 and 12). */
export const refunds: readonly string[] = ['reversal', 'refund'];
const laterStages = ['cancel', 'chargeback', 'fraud', 'dispute', 'retrieval'];

/**
 * The row of a response to a query of the status of an order (docs/gateway-interface.md sections 2.2, 3, 7 and 12).
 *
 * @param form of a response with status 200 about the order; `undefined` for anything else
 * @param product of the environment, with which the name of the gateway's order ID begins
 */
export function statusRowOf(form: ResponseFields | undefined, product: string): StatusRowName {
  const values = (name: string): string[] =>
    (form ?? []).flatMap(([found, value]) => (found === name && value !== '' ? [value] : []));
  const [status, ...statuses] = new Set(values('status'));
  const [stage = '', ...stages] = new Set(values('transaction-type'));
  if (status === undefined || statuses.length > 0 || stages.length > 0) return 'no response';
  if (laterStages.includes(stage)) return 'later stage';
  const isRefund = refunds.includes(stage);
  if (status === 'approved') return isRefund ? 'refunded' : 'approved';
  if (status === 'declined' || status === 'filtered') return isRefund ? 'not refunded' : 'declined';
  if (status === 'unknown') return 'unknown';
  if (status !== 'error') return 'processing';
  if (values('error-code').includes('124')) return 'ambiguous';
  return values(`${product}-order-id`).length > 0 ? 'in error' : 'not found';
}

/** @param age milliseconds since the payment */
export function adviceOf(name: StatusRowName, age: number): Advice {
  const row: StatusRow = statusRows[name];
  return (age >= patience ? row.late : undefined) ?? row.advice;
}
