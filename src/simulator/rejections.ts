/** Why the simulator rejects a request, and what to check then. Texts are Markdown. */
export const rejections = {
  'query-present': 'The URL has a query. Send every parameter in the form.',
  'content-type-wrong': 'The content type is not `application/x-www-form-urlencoded`.',
  'body-malformed':
    'The form cannot be decoded: `%` without two hexadecimal digits, a character that is not encoded, text that is not UTF-8, or an empty parameter (`&&`).',
  'authorization-missing': 'The request has no `Authorization` header.',
  'authorization-malformed':
    'There is not exactly one header `Authorization: OAuth name="value", ...` with percent-encoded values.',
  'oauth-parameter-missing': 'An OAuth parameter is missing from the header or from the form.',
  'oauth-parameter-repeated': 'An OAuth parameter is in the header or in the form twice.',
  'oauth-parameter-unexpected':
    'The header or the form has a parameter that does not belong there. The signature is only in the header.',
  'header-body-mismatch': 'An OAuth parameter has another value in the form than in the header.',
  'version-wrong': 'Set `oauth_version` to `1.0`.',
  'method-wrong':
    'The operation requires the other signature method. Compare `signature` of this operation in the configuration of the proxy and in the scenario.',
  'timestamp-malformed': '`oauth_timestamp` is not a whole number of seconds since 1970.',
  'timestamp-in-milliseconds': '`oauth_timestamp` is in milliseconds. Send seconds.',
  'timestamp-outside-window':
    '`oauth_timestamp` is too far from the clock of the simulator. Compare the clocks, and the clock offset of the simulator.',
  'login-mismatch':
    'The consumer key is not the login of the path, or not the value of the only parameter `login`.',
  'login-unknown': 'The scenario has no such login. Add it under `logins`.',
  'control-missing': 'The form does not have `control` once.',
  'key-missing': 'The simulator has no key of this kind for the login. Add one.',
  'signature-malformed': 'The signature is not base64, or it is hexadecimal.',
  'signature-wrong':
    'No key of the login made this signature. Compare the base strings; if they are equal, the signer has another key.',
  'nonce-replayed': 'The login used this nonce before. Make a new one for every attempt.',
  'balance-not-enabled': 'The login has no `balances` in the scenario.',
  'fault-injected': 'A fault `status-403` applies to this request.',
} as const;

export type VerificationFailure = keyof typeof rejections;

/**
 * Thrown by the first failed check. The gateway responds with 403 and no reason (docs/gateway-interface.md section 7), to a
 * wrong control perhaps with an error and 200 (section 5.5). So does the simulator, but it adds the reason in the header
 * `Simulator-Rejection`.
 */
export class VerificationError extends Error {
  override readonly name = 'VerificationError';
  readonly reason: VerificationFailure;
  /** The OAuth parameter that is missing, repeated or different. */
  readonly parameter: string | undefined;

  constructor(reason: VerificationFailure, parameter?: string) {
    super(reason);
    this.reason = reason;
    this.parameter = parameter;
  }
}
