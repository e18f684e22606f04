/**
 * What happened to a request at the gateway: the gateway `answered`, the request was provably `not-sent`, or the
 * outcome is `unknown` (a byte may have been sent, but there is no complete response).
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
 * The closed list of Countersign's own errors. The key is the public `reason`, a metric label and the last part of
 * `urn:countersign:error:<reason>`.
 */
export const errorTable = {
  'method-not-allowed': row(405, 'not-sent', 'Only POST is accepted', 'http_request_denied'),
  'unsupported-media-type': row(415, 'not-sent', 'The body is not a plain UTF-8 form'),
  'too-large': row(413, 'not-sent', 'The form is too large'),
  'malformed-form': row(400, 'not-sent', 'The form cannot be decoded'),
  'query-not-allowed': row(400, 'not-sent', 'Parameters belong in the body', 'http_request_denied'),
  'reserved-parameter': row(400, 'not-sent', 'A parameter that Countersign adds'),
  'parameter-invalid': row(400, 'not-sent', 'A parameter is missing or invalid'),
  'login-missing': row(400, 'not-sent', 'No login in the request'),
  'login-conflict': row(400, 'not-sent', 'Conflicting logins in the request'),
  'bad-request': row(400, 'not-sent', 'Invalid HTTP request for this proxy'),
  'head-too-large': row(431, 'not-sent', 'The head of the request is too large'),
  'request-timeout': row(408, 'not-sent', 'Timed out reading the request'),
  'caller-gone': row(499, 'not-sent', 'Client closed the connection before the request was complete'),
  'caller-unknown': row(401, 'not-sent', 'Unknown or invalid credentials', 'http_request_denied'),
  'caller-limit': row(429, 'not-sent', 'Too many requests of this caller', 'connection_limit_reached'),
  'not-allowed': row(403, 'not-sent', 'Not authorized', 'http_request_denied'),
  'web-page': row(403, 'not-sent', 'Requests of web pages are rejected', 'http_request_denied'),
  'unknown-host': row(421, 'not-sent', 'Unknown host name', 'http_request_denied'),
  'unknown-route': row(404, 'not-sent', 'Unknown environment or operation', 'destination_not_found'),
  'issuer-unavailable': row(
    503,
    'not-sent',
    'The token cannot be verified at the moment',
    'proxy_internal_error',
  ),
  pipelined: row(503, 'not-sent', 'A connection has one request at a time', 'http_request_denied'),
  overloaded: row(503, 'not-sent', 'Too many requests in flight', 'connection_limit_reached'),
  'shutting-down': row(503, 'not-sent', 'Shutting down', 'proxy_internal_response'),
  'key-source-unavailable': row(503, 'not-sent', 'Key temporarily unavailable', 'proxy_internal_error'),
  'signing-unavailable': row(503, 'not-sent', 'Vault cannot sign at the moment', 'proxy_internal_error'),
  'audit-unavailable': row(503, 'not-sent', 'Audit trail temporarily unavailable', 'proxy_internal_error'),
  'claims-unavailable': row(
    503,
    'not-sent',
    'Order IDs cannot be claimed at the moment',
    'proxy_internal_error',
  ),
  'duplicate-payment': row(409, 'unknown', 'This payment was sent before', 'http_request_denied'),
  'order-id-reused': row(422, 'not-sent', 'Another payment has this order ID', 'http_request_denied'),
  'key-missing': row(
    502,
    'not-sent',
    'No key of the required type for this login',
    'proxy_configuration_error',
  ),
  'key-unusable': row(502, 'not-sent', 'No usable key for this login', 'proxy_configuration_error'),
  'gateway-unreachable': row(502, 'not-sent', 'Gateway unreachable', 'destination_unavailable'),
  'gateway-timeout': row(504, 'unknown', 'Gateway timeout', 'http_response_timeout'),
  'gateway-reset': row(502, 'unknown', 'Gateway closed the connection unexpectedly', 'connection_terminated'),
  'gateway-reply-invalid': row(502, 'unknown', 'Invalid gateway response', 'http_protocol_error'),
  internal: row(500, 'not-sent', 'Internal error', 'proxy_internal_error'),
} as const satisfies Record<string, Row>;

export type Reason = keyof typeof errorTable;

/** Who has to act on a failed request. `countersign`: its operators. `none`: it did not fail. */
export type ResponsibleParty = 'none' | 'caller' | 'countersign' | 'gateway';

/** @param request what is known of it: the reason of an error of Countersign, the status of the gateway's response */
export function responsibleParty(request: {
  readonly reason?: Reason | undefined;
  readonly gatewayStatus?: number | undefined;
}): ResponsibleParty {
  const { reason, gatewayStatus = 0 } = request;
  if (reason === undefined) return gatewayStatus >= 500 ? 'gateway' : 'none';
  if (reason.startsWith('gateway-')) return 'gateway';
  if (reason === 'pipelined') return 'caller';
  return errorTable[reason].status < 500 ? 'caller' : 'countersign';
}

/** What lets only so many requests through at a time; most are fields of the configuration. */
export type Limit =
  | 'callers[].maxInFlight'
  | 'environments.*.maxInFlight'
  | 'proxy.maxBufferedBytes'
  | 'signing.maxQueue'
  | 'keys.vault.transit'
  | 'key reads';

interface ProxyErrorOptions {
  /** For operators only, never sent to a client. Must not hold a secret or card data. */
  readonly cause?: unknown;
  /** For operators, too: which one was reached. */
  readonly limit?: Limit | undefined;
  /** Seconds, sent as `Retry-After`. */
  readonly retryAfter?: number;
  /** Replaces the outcome of the table, for errors whose outcome only the code that failed knows (`internal`). */
  readonly outcome?: Outcome;
  /** Further response headers, such as `Allow` or `WWW-Authenticate`. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** An error that Countersign responds with itself. `detail` is public: what happened, then what to do. */
export class ProxyError extends Error {
  override readonly name = 'ProxyError';
  readonly reason: Reason;
  readonly detail: string;
  readonly status: number;
  readonly outcome: Outcome;
  readonly limit: Limit | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(reason: Reason, detail: string, options: ProxyErrorOptions = {}) {
    super(`${reason}: ${detail}`, options.cause === undefined ? {} : { cause: options.cause });
    this.reason = reason;
    this.detail = detail;
    this.status = errorTable[reason].status;
    this.outcome = options.outcome ?? errorTable[reason].outcome;
    this.limit = options.limit;
    this.headers = {
      ...options.headers,
      ...(options.retryAfter === undefined ? {} : { 'Retry-After': String(Math.ceil(options.retryAfter)) }),
    };
  }

  withDetail(detail: string): ProxyError {
    return new ProxyError(this.reason, detail, {
      cause: this.cause,
      limit: this.limit,
      outcome: this.outcome,
      headers: this.headers,
    });
  }
}

/** No room for a request at the moment. @param detail what for */
export function overloaded(limit: Limit, detail: string): ProxyError {
  return new ProxyError('overloaded', detail, { limit, retryAfter: 1 });
}

/** The `code` of an error of Node, such as `ECONNREFUSED`; `undefined` if it has none. */
export function errorCode(error: unknown): string | undefined {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : undefined;
}

/** Whether Node's HTTP parser rejected what was received. Codes of its errors begin with HPE. */
export function isParserError(error: unknown): boolean {
  return errorCode(error)?.startsWith('HPE_') ?? false;
}
