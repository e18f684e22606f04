/**
 * Why the simulator rejected a request. The gateway responds with 403 and no reason (docs/gateway-interface.md section 7).
 * So does the simulator, but it adds the reason in the header `Simulator-Rejection`.
 */
export type VerificationFailure =
  | 'query-present'
  | 'content-type-wrong'
  | 'body-malformed'
  | 'authorization-missing'
  | 'authorization-malformed'
  | 'oauth-parameter-missing'
  | 'oauth-parameter-repeated'
  | 'oauth-parameter-unexpected'
  | 'header-body-mismatch'
  | 'version-wrong'
  | 'method-wrong'
  | 'timestamp-malformed'
  | 'timestamp-in-milliseconds'
  | 'timestamp-outside-window'
  | 'login-mismatch'
  | 'login-unknown'
  | 'login-blocked'
  | 'key-missing'
  | 'signature-malformed'
  | 'signature-wrong'
  | 'nonce-replayed'
  | 'balance-not-enabled';

/** Thrown by the first failed check. Contains only the reason, and nothing of the request. */
export class VerificationError extends Error {
  override readonly name = 'VerificationError';
  readonly reason: VerificationFailure;

  constructor(reason: VerificationFailure) {
    super(reason);
    this.reason = reason;
  }
}
