/**
 * The request ID that a client sent as `X-Request-Id`, for log and error responses, so that both sides can find each
 * other's line. Ignored if it has other characters, or as many digits in a row as an account number.
 */
export function parseCallerRequestId(header: string | undefined): string | undefined {
  return header !== undefined && /^[A-Za-z0-9._-]{1,64}$/.test(header) && !/\d{12}/.test(header)
    ? header
    : undefined;
}
