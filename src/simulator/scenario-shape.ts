import { z } from 'zod';
import { builtInOperations } from '../gateway/operations.ts';
import { identifierPattern } from '../identifiers.ts';

const identifier = z
  .string({ error: 'must be a text; put numbers in quotes' })
  .regex(identifierPattern, 'must be 1 to 128 of A-Z a-z 0-9 . _ ~ @ -');
const operation = z.enum(Object.keys(builtInOperations));

/** Interface section 2.1. `online-balance-live-amount` follows from the others, so it is not written down. */
const balance = z.strictObject({
  name: z.string().min(1).max(128),
  currency: z.string().regex(/^[A-Z]{3}$/, 'must be a three-letter code'),
  amount: z.number(),
  'total-short-term-hold-amount': z.number().default(0),
  'total-rolling-reserve-amount': z.number().default(0),
  'amount-buffer-hold': z.number().default(0),
  externalMerchantIdentifier: z.string().nullable().default(null),
});

/** What the simulator itself puts into a status response. */
const itsOwn = ['type', 'by-request-sn', 'merchant-order-id'];
const needsMessage = ['error', 'declined', 'filtered'];

/** Fields of the status response (interface section 2.2) at one stage of an order. */
const stage = z
  .record(
    z.string().regex(/^[a-z][A-Za-z0-9_-]*$/, 'must be a field of the status response'),
    z.string({ error: 'must be a text; put numbers in quotes' }),
  )
  .describe('"serial-number" is the one of the request that led to this stage.')
  .refine((fields) => !hasAny(fields, itsOwn), `must leave out ${itsOwn.join(', ')}`)
  .refine((fields) => Object.hasOwn(fields, 'status'), 'must have a status')
  .refine(
    (fields) => !needsMessage.includes(fields['status'] ?? '') || hasMessage(fields),
    'must have error-message and error-code: declined, error and filtered carry them',
  );

const order = z.strictObject({
  login: identifier,
  endpoint: identifier,
  client_orderid: z.string().min(1).max(128),
  orderid: z.string({ error: 'must be a text; put it in quotes' }).regex(/^\d{1,18}$/, 'must be digits'),
  stages: z.array(stage).min(1),
});

const faultRule = z.strictObject({
  operation: operation.optional(),
  client_orderid: z.string().optional(),
  delaySeconds: z.number().min(0).max(86_400).default(0),
  fault: z.enum(['reset', 'drip', 'status-500', 'garbage']).optional(),
});

export const scenarioShape = z.strictObject({
  product: z
    .string()
    .regex(/^[A-Za-z0-9_~-]{1,64}$/, 'must be one path segment')
    .default('gw'),
  timestampWindowSeconds: z.int().positive().max(86_400).default(300),
  signatures: z
    .partialRecord(operation, z.enum(['HMAC-SHA1', 'RSA-SHA256']))
    .default({})
    .describe('Instead of the one in the table of operations.'),
  logins: z.record(
    identifier,
    z.strictObject({
      balances: z.array(balance).optional().describe('Left out: the balance feature is not enabled.'),
    }),
  ),
  endpoints: z.array(identifier).default([]),
  groups: z.record(identifier, z.array(identifier)).default({}).describe('Group id -> its endpoints.'),
  orders: z.array(order).default([]),
  faults: z.array(faultRule).default([]).describe('The first that matches is used.'),
});

/** Who the simulated gateway knows, and which balances and orders it has. Holds no key. */
export type Scenario = z.output<typeof scenarioShape>;
export type Balance = z.output<typeof balance>;
export type ScenarioOrder = z.output<typeof order>;
export type FaultName = NonNullable<Scenario['faults'][number]['fault']>;
export type Stage = z.output<typeof stage>;

function hasAny(fields: object, names: readonly string[]): boolean {
  return names.some((name) => Object.hasOwn(fields, name));
}

function hasMessage(fields: object): boolean {
  return Object.hasOwn(fields, 'error-message') && Object.hasOwn(fields, 'error-code');
}
