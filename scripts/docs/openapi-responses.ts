import { errorTable, type Outcome, type Reason } from '../../src/errors.ts';
import { callbackResults, orderMismatches } from '../../src/request-context.ts';

export type Json = Readonly<Record<string, unknown>>;

const outcomes: Readonly<Record<Outcome, string>> = {
  answered: 'the gateway responded',
  'not-sent': 'nothing reached the gateway, so sending it again is safe',
  unknown:
    'the request may have been processed: query the status of a payment by order ID, let a person decide about a refund, do not send it again',
};

const everyResponse: Json = {
  'X-Request-Id': { $ref: '#/components/headers/RequestId' },
  'Countersign-Outcome': { $ref: '#/components/headers/Outcome' },
  'Proxy-Status': { $ref: '#/components/headers/ProxyStatus' },
  'Countersign-Order-Mismatch': { $ref: '#/components/headers/OrderMismatch' },
  'Cache-Control': { $ref: '#/components/headers/CacheControl' },
};

export const headers: Json = {
  RequestId: {
    // Without a format: a client must not fail where a proxy on the way replaced it.
    description: 'A UUID. Finds the log line.',
    required: true,
    schema: { type: 'string' },
  },
  Outcome: {
    description: `What happened to the request at the gateway. ${listed(Object.entries(outcomes))}.`,
    required: true,
    schema: { type: 'string', enum: Object.keys(outcomes) },
  },
  ProxyStatus: {
    description: 'RFC 9209. Has the status of the gateway, or the reason of an error.',
    required: true,
    schema: { type: 'string' },
  },
  OrderMismatch: {
    description: "Only on a gateway's response that is about another order than the request: what differs.",
    schema: { type: 'string', enum: orderMismatches },
  },
  CacheControl: {
    description: "no-store on errors of Countersign's own; otherwise the gateway's, if it sent one.",
    schema: { type: 'string' },
  },
  RetryAfter: {
    description:
      "Seconds on errors of Countersign's own. The gateway may send a date (RFC 9110 section 10.2.3).",
    schema: { type: 'string' },
  },
};

/** Headers of some statuses besides {@link everyResponse}. */
const headersByStatus: Readonly<Record<string, Json>> = {
  401: {
    'WWW-Authenticate': {
      description: "On errors of Countersign's own: how to authenticate.",
      schema: { type: 'string' },
    },
  },
  405: {
    Allow: {
      description: "On errors of Countersign's own: the only method, POST.",
      schema: { type: 'string' },
    },
  },
  429: { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } },
  503: { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } },
};

const schema = (name: string): Json => ({ schema: { $ref: `#/components/schemas/${name}` } });

/**
 * The text comes first: a generator that chooses by the status alone takes the first media type, and its client must not
 * fail on a form or on the gateway's HTML.
 */
const textOr = (json: Json): Json => ({ 'text/html': { schema: { type: 'string' } }, ...json });

/**
 * Any status can have any of these. JSON of the gateway has no schema, but is named: otherwise a generator that looks for
 * "json" in Content-Type takes it for a `Problem`.
 */
const anyError = textOr({ 'application/problem+json': schema('Problem'), 'application/json': {} });

/** Of all operations: the successes, {@link errorStatuses}, and `Gateway` for every other status. */
export function responses(): Json {
  const orJson = 'or that as JSON for a client that prefers application/json (Accept)';
  const successes = {
    Balances: ['The balances.', { 'application/json': schema('Balances') }],
    OrderStatus: [
      `The status as a form (name=value&...), ${orJson}.`,
      textOr({ 'application/json': schema('OrderStatus') }),
    ],
    Fields: [
      `The response of the gateway: a form (name=value&...), ${orJson}.`,
      textOr({ 'application/json': schema('GatewayFields') }),
    ],
    CallbackVerdict: ['What can be said of the callback.', { 'application/json': schema('CallbackVerdict') }],
    Gateway: [
      'The response of the gateway with any other status. Its body is unchanged, except that a form becomes a JSON ' +
        'object for a client that prefers application/json (Accept).',
      textOr({ 'application/json': {} }),
    ],
  } as const;
  const gateway = Object.entries(successes).map(([name, [description, content]]) => [
    name,
    { description, headers: everyResponse, content },
  ]);
  const errors = errorStatuses().map((status) => [
    status,
    {
      description:
        `Countersign's own error (application/problem+json): ${titles(status)}. ` +
        'Or a response of the gateway with this status.',
      headers: { ...everyResponse, ...headersByStatus[status] },
      content: anyError,
    },
  ]);
  return Object.fromEntries([...gateway, ...errors]);
}

/** All statuses of Countersign's own errors, ascending. */
export function errorStatuses(): string[] {
  const statuses = responseReasons().map((reason) => errorTable[reason].status);
  return [...new Set(statuses)].sort((a, b) => a - b).map(String);
}

function titles(status: string): string {
  const reasons = responseReasons().filter((reason) => String(errorTable[reason].status) === status);
  return listed(reasons.map((reason) => [reason, errorTable[reason].title]));
}

function listed(entries: readonly (readonly [string, string])[]): string {
  return entries.map(([name, meaning]) => `${name}: ${meaning}`).join('; ');
}

/** Without the one that no client can receive. */
function responseReasons(): Reason[] {
  return Object.keys(errorTable)
    .filter((reason): reason is Reason => Object.hasOwn(errorTable, reason))
    .filter((reason) => reason !== 'caller-gone');
}

export function schemas(): Json {
  return {
    Problem: problem(),
    Balances: { type: 'array', items: { $ref: '#/components/schemas/Balance' } },
    Balance: balance,
    OrderStatus: orderStatus,
    GatewayFields: fields,
    CallbackVerdict: callbackVerdict,
  };
}

function problem(): Json {
  const reasons = responseReasons();
  return {
    description: "An error of Countersign's own (RFC 9457).",
    type: 'object',
    required: ['type', 'title', 'status', 'detail', 'reason', 'outcome', 'requestId'],
    properties: {
      type: { type: 'string', description: 'urn:countersign:error: and the reason.' },
      title: { type: 'string', description: 'What happened.' },
      status: { type: 'integer' },
      detail: { type: 'string', description: 'What exactly is wrong, and what to do about it.' },
      reason: {
        type: 'string',
        description:
          'New versions may add values: treat one that is not listed as any other error, and decide by the outcome. ' +
          `${listed(reasons.map((reason) => [reason, errorTable[reason].title]))}.`,
        enum: reasons,
      },
      outcome: {
        type: 'string',
        description: 'As in the header Countersign-Outcome.',
        enum: ['not-sent', 'unknown'],
      },
      requestId: { type: 'string', format: 'uuid', description: 'As in the header X-Request-Id.' },
      callerRequestId: { type: 'string', description: 'X-Request-Id of the request, if it can be logged.' },
    },
  };
}

const callbackVerdict: Json = {
  type: 'object',
  required: ['result', 'environment', 'login', 'covered'],
  properties: {
    result: {
      type: 'string',
      description:
        'verified: made with a control key of the ring of the login. not-verified: with none of them. key-missing: the login has none.',
      enum: callbackResults,
    },
    detail: { type: 'string', description: 'Of one that is not verified: why, and what to do.' },
    keyVersion: { type: 'integer', description: 'Of the key that made it.' },
    environment: { type: 'string' },
    login: { type: 'string', description: 'That of the request, whose keys were tried.' },
    covered: {
      type: 'array',
      description: "The parameters that the control covers. All others may be anybody's.",
      items: { type: 'string' },
    },
  },
};

const amount: Json = { type: 'number', format: 'double' };

/** Section 2.1 of docs/gateway-interface.md. Nothing is required: a client need not fail where a field is missing. */
const balance: Json = {
  type: 'object',
  properties: {
    name: { type: 'string' },
    amount: { ...amount, description: 'Includes the short-term hold and the rolling reserve.' },
    'online-balance-live-amount': {
      ...amount,
      description: 'amount without the short-term hold and the rolling reserve.',
    },
    'total-short-term-hold-amount': amount,
    'total-rolling-reserve-amount': amount,
    currency: { type: 'string', description: 'Three letters.' },
    merchantLogin: { type: 'string' },
    'amount-buffer-hold': { ...amount, description: 'Sum of OUT operations without a final status.' },
    externalMerchantIdentifier: { type: ['string', 'null'] },
  },
};

/** Those of section 2.2 of docs/gateway-interface.md that every order can have. */
const statusFields =
  'type serial-number status order-stage transaction-type error-message error-code amount initial-amount currency ' +
  'merchant-order-id transaction-date processor-tx-id';

const orderStatus: Json = {
  description:
    "Each field is present only if the gateway sent it. Those not listed, such as the gateway's order ID (its name begins " +
    "with the product), are in the gateway's documentation.",
  type: 'object',
  properties: Object.fromEntries(statusFields.split(' ').map((name) => [name, { type: 'string' }])),
  additionalProperties: true,
};

const fields: Json = {
  description:
    "The fields of the gateway's form: each value is a string, or an array of strings if the name is repeated. The names " +
    "are in the gateway's documentation. If the gateway itself responds with JSON, that is forwarded unchanged.",
  type: 'object',
  additionalProperties: true,
};
