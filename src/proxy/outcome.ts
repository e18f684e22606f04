import { errorTable, type Outcome, ProxyError } from '../errors.ts';
import type { UpstreamRecord } from '../request-context.ts';

/**
 * What a caller should do when the gateway may have processed its request. Also a header field value: ASCII without
 * quotation marks and backslashes (RFC 9651 section 3.3.3).
 */
export const unknownOutcomeAdvice =
  'The request may have been processed. Query the order status by order ID; do not resubmit under a new ID.';

/**
 * What became of a request whose caller gets no response of the gateway, over all its attempts: `not-sent`
 * only if no byte of any attempt can have left, however the last one ended.
 */
export function outcomeWithoutResponse({
  writtenAttempts = 0,
}: Pick<UpstreamRecord, 'writtenAttempts'>): Outcome {
  return writtenAttempts === 0 ? 'not-sent' : 'unknown';
}

/** The refusal as the caller gets it: with the outcome of all attempts, and a text that agrees with it. */
export function withTrueOutcome(
  refusal: ProxyError,
  exchange: Pick<UpstreamRecord, 'writtenAttempts'>,
): ProxyError {
  const outcome = outcomeWithoutResponse(exchange);
  if (outcome === refusal.outcome) return refusal;
  const { reason, cause } = refusal;
  // Neither its own detail nor its Retry-After goes out: both may invite the caller to send the request again.
  const { title } = errorTable[reason];
  const detail = `${title}, but an attempt may have reached the gateway. ${unknownOutcomeAdvice}`;
  return new ProxyError(reason, detail, { outcome, cause });
}
