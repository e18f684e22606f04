import { errorTable, type Outcome, ProxyError } from '../errors.ts';
import type { RequestRecord } from '../request-context.ts';

/** Also sent in a header: ASCII without quotation marks and backslashes (RFC 9651 section 3.3.3). */
export const unknownPaymentAdvice =
  'The request may have been processed. Query the status of a payment by order ID, let a person decide about a refund; do not send it again.';
export const unknownQueryAdvice = 'A query changes nothing, so it is safe to query again.';
export const notSentAdvice = 'Nothing was sent; it is safe to send the request again.';

type Attempted = Pick<RequestRecord, 'writtenAttempts' | 'firstRequestId' | 'readOnly'>;

/**
 * The outcome of a request for which no gateway response is forwarded, over all attempts: `not-sent` only if no byte
 * of any attempt can have been sent, regardless of how the last one ended, and no request before sent the same payment.
 */
export function outcomeWithoutResponse({ writtenAttempts = 0, firstRequestId }: Attempted): Outcome {
  return writtenAttempts === 0 && firstRequestId === undefined ? 'not-sent' : 'unknown';
}

/** The error as the client gets it: with the outcome of all attempts and a matching text. */
export function withTrueOutcome(error: ProxyError, record: Attempted): ProxyError {
  const outcome = outcomeWithoutResponse(record);
  if (outcome === error.outcome) return error;
  // Its own detail and Retry-After are left out, since both may say the contrary.
  const { title } = errorTable[error.reason];
  const advice = record.readOnly ? unknownQueryAdvice : unknownPaymentAdvice;
  const detail =
    outcome === 'not-sent'
      ? `${title}. ${notSentAdvice}`
      : `${title}, but an attempt may have reached the gateway. ${advice}`;
  return new ProxyError(error.reason, detail, { outcome });
}
