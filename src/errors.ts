/**
 * What became of the request at the gateway: it `answered`, the request was provably `not-sent`, or the
 * outcome is `unknown` (sent, but no complete answer).
 */
export type Outcome = 'answered' | 'not-sent' | 'unknown';

interface Row {
  readonly status: number;
  readonly outcome: Outcome;
  /** Short public text, the same for every occurrence (RFC 9457 `title`). */
  readonly title: string;
  /** Error type of the `Proxy-Status` header (RFC 9209 section 2.3). */
  readonly proxyStatusError: string;
}

function row(status: number, outcome: Outcome, title: string, proxyError = 'http_request_error'): Row {
  return { status, outcome, title, proxyStatusError: proxyError };
}

/**
 * The closed list of what Countersign itself answers. The key is the public `reason`, the
 * metric label and the end of `urn:countersign:error:<reason>`.
 */
export const errorTable = {
  'method-not-allowed': row(405, 'not-sent', 'Only POST is accepted', 'http_request_denied'),
  'unsupported-media-type': row(415, 'not-sent', 'The body is not a plain UTF-8 form'),
  'too-large': row(413, 'not-sent', 'The form is too large'),
  'malformed-form': row(400, 'not-sent', 'The form cannot be decoded'),
  'query-not-allowed': row(400, 'not-sent', 'Parameters belong in the body', 'http_request_denied'),
  'reserved-parameter': row(400, 'not-sent', 'OAuth parameters are added by Countersign'),
  'parameter-invalid': row(400, 'not-sent', 'A parameter is missing or invalid'),
  'login-missing': row(400, 'not-sent', 'The request names no login'),
  'login-conflict': row(400, 'not-sent', 'The request names two different logins'),
  'bad-request': row(400, 'not-sent', 'The request is not valid HTTP for this proxy'),
  'request-timeout': row(408, 'not-sent', 'The request did not arrive in time'),
  'caller-gone': row(499, 'not-sent', 'The caller hung up before its request was complete'),
  'caller-unknown': row(401, 'not-sent', 'The caller is not known', 'http_request_denied'),
  'not-allowed': row(403, 'not-sent', 'The caller may not do this', 'http_request_denied'),
  'unknown-route': row(404, 'not-sent', 'No such environment or operation', 'destination_not_found'),
  overloaded: row(503, 'not-sent', 'Too many requests are under way', 'connection_limit_reached'),
  'shutting-down': row(503, 'not-sent', 'This instance is stopping', 'proxy_internal_response'),
  'key-source-unavailable': row(503, 'not-sent', 'The key cannot be fetched now', 'proxy_internal_error'),
  'key-missing': row(502, 'not-sent', 'The login has no key of the kind needed', 'proxy_configuration_error'),
  'key-unusable': row(502, 'not-sent', 'The key of the login cannot be used', 'proxy_configuration_error'),
  'gateway-unreachable': row(502, 'not-sent', 'The gateway cannot be reached', 'destination_unavailable'),
  'gateway-timeout': row(504, 'unknown', 'The gateway did not answer in time', 'http_response_timeout'),
  'gateway-reset': row(502, 'unknown', 'The gateway broke the connection', 'connection_terminated'),
  'gateway-reply-invalid': row(502, 'unknown', 'The gateway gave no valid answer', 'http_protocol_error'),
  internal: row(500, 'not-sent', 'Countersign failed', 'proxy_internal_error'),
} as const satisfies Record<string, Row>;

export type Reason = keyof typeof errorTable;

export interface ProxyErrorOptions {
  /** For people who operate Countersign; never sent to a caller. Must not hold a secret or card data. */
  readonly cause?: unknown;
  /** Seconds, sent as `Retry-After`. */
  readonly retryAfter?: number;
  /** Replaces the row's outcome where only the code that failed knows it (`internal`). */
  readonly outcome?: Outcome;
  /** Further response headers, such as `Allow` or `WWW-Authenticate`. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A request that Countersign answers itself. `detail` is public: what is wrong and what to do about it. */
export class ProxyError extends Error {
  override readonly name = 'Refusal';
  readonly reason: Reason;
  readonly detail: string;
  readonly status: number;
  readonly outcome: Outcome;
  readonly headers: Readonly<Record<string, string>>;

  constructor(reason: Reason, detail: string, options: ProxyErrorOptions = {}) {
    super(`${reason}: ${detail}`, options.cause === undefined ? {} : { cause: options.cause });
    this.reason = reason;
    this.detail = detail;
    this.status = errorTable[reason].status;
    this.outcome = options.outcome ?? errorTable[reason].outcome;
    this.headers = {
      ...options.headers,
      ...(options.retryAfter === undefined ? {} : { 'Retry-After': String(Math.ceil(options.retryAfter)) }),
    };
  }

  /** The same refusal with another detail. */
  withDetail(detail: string): ProxyError {
    return new ProxyError(this.reason, detail, {
      cause: this.cause,
      outcome: this.outcome,
      headers: this.headers,
    });
  }
}
