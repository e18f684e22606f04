import { type Outcome, Refusal, refusals } from '../errors.ts';
import type { Exchange } from '../exchange.ts';

/** What a caller should do when the gateway may have processed its request. */
export const unknownOutcomeAdvice =
  'The request may have been carried out. Ask for the status of the order by its order id; do not send it again under a new one.';

/**
 * What became of a request whose caller gets no response of the gateway, over all its attempts: `not-sent`
 * only if no byte of any attempt can have left, however the last one ended.
 */
export function outcomeWithoutResponse({ writtenAttempts = 0 }: Pick<Exchange, 'writtenAttempts'>): Outcome {
  return writtenAttempts === 0 ? 'not-sent' : 'unknown';
}

/** The refusal as the caller gets it: with the outcome of all attempts, and a text that agrees with it. */
export function withTrueOutcome(refusal: Refusal, exchange: Pick<Exchange, 'writtenAttempts'>): Refusal {
  const outcome = outcomeWithoutResponse(exchange);
  if (outcome === refusal.outcome) return refusal;
  const { reason, cause } = refusal;
  // Neither its own detail nor its Retry-After goes out: both may invite the caller to send the request again.
  const { title } = refusals[reason];
  const detail = `${title}, but an attempt may have reached the gateway. ${unknownOutcomeAdvice}`;
  return new Refusal(reason, detail, { outcome, cause });
}
