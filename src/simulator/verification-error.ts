/**
 * Why the simulator refused a request. The gateway answers 403 and does not say why (interface section 7);
 * the simulator answers the same and tells the developer apart from it: see `Simulator-Rejection`.
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
  | 'login-refused'
  | 'key-missing'
  | 'signature-malformed'
  | 'signature-wrong'
  | 'nonce-replayed'
  | 'balance-not-enabled';

/** Thrown by the first check that fails. Carries no more than the reason: nothing of the request. */
export class VerificationError extends Error {
  override readonly name = 'Rejected';
  readonly reason: VerificationFailure;

  constructor(reason: VerificationFailure) {
    super(reason);
    this.reason = reason;
  }
}
