import { ProxyError } from '../../errors.ts';
import type { Destination } from '../../gateway/router.ts';
import type { NetworkFailure } from '../../util/network-failure.ts';
import { unknownOutcomeAdvice } from '../outcome.ts';
import type { UpstreamError } from './upstream-request.ts';

/** For the caller, who cannot do anything about it, and for whom the caller asks. */
const unreachableTexts: Readonly<Record<NetworkFailure, string>> = {
  dns: "The gateway's host name could not be resolved (DNS).",
  refused: 'The gateway refused the connection.',
  timeout: 'The gateway did not accept a connection in time (timeout).',
  tls: 'The TLS handshake with the gateway failed (TLS).',
  other: 'No connection could be made.',
};

/** What the caller gets where no usable answer came. */
export function proxyErrorFor(failure: UpstreamError, { settings }: Destination): ProxyError {
  const details = {
    'gateway-unreachable': `${unreachableTexts[failure.unreachable ?? 'other']} Nothing was sent; it is safe to send the request again.`,
    'gateway-timeout': `There was no complete answer within ${settings.timeouts.request / 1000} s. ${unknownOutcomeAdvice}`,
    'gateway-reset': `The connection ended before the answer was complete. ${unknownOutcomeAdvice}`,
    'gateway-reply-invalid': `What came back is not a valid HTTP answer. ${unknownOutcomeAdvice}`,
  };
  return new ProxyError(failure.reason, details[failure.reason], { cause: failure });
}
