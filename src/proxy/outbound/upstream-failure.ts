import { ProxyError } from '../../errors.ts';
import type { Destination } from '../../gateway/router.ts';
import type { NetworkFailure } from '../../util/network-failure.ts';
import { unknownOutcomeAdvice } from '../outcome.ts';
import type { UpstreamError } from './upstream-request.ts';

/** Clients pass these texts on to an operator, so they name the kind of failure. */
const unreachableTexts: Readonly<Record<NetworkFailure, string>> = {
  dns: "The gateway's host name could not be resolved (DNS).",
  refused: 'The gateway refused the connection.',
  timeout: 'The gateway did not accept a connection within the timeout.',
  tls: 'The TLS handshake with the gateway failed (TLS).',
  other: 'The connection to the gateway failed.',
};

/** The error for a client whose request got no usable gateway response. */
export function proxyErrorFor(failure: UpstreamError, { settings }: Destination): ProxyError {
  const details = {
    'gateway-unreachable': `${unreachableTexts[failure.unreachable ?? 'other']} Nothing was sent; it is safe to send the request again.`,
    'gateway-timeout': `No complete response within ${settings.timeouts.request / 1000} s. ${unknownOutcomeAdvice}`,
    'gateway-reset': `The connection ended before the response was complete. ${unknownOutcomeAdvice}`,
    'gateway-reply-invalid': `The gateway's response is not valid HTTP. ${unknownOutcomeAdvice}`,
  };
  return new ProxyError(failure.reason, details[failure.reason], { cause: failure });
}
