import { z } from 'zod';
import { withOperations } from '../config/operations-file.ts';
import { parseText } from '../config/parse-value.ts';
import { type Path, type Report, repeated } from '../config/problem.ts';
import { checkOperations, reportTo } from '../config/rules.ts';
import { operationOverrides } from '../config/schema/operation.ts';
import { matching, operationName } from '../config/schema/values.ts';
import { builtInOperations } from '../gateway/operations.ts';
import { identifierCharacters, identifierPattern } from '../identifiers.ts';
import { didYouMean } from '../util/text.ts';
import { faultRule, seconds } from './faults.ts';

const stringValue = z.string({ error: 'must be a string: put numbers in quotes' });
const identifier = stringValue.regex(identifierPattern, `must be 1 to 128 of ${identifierCharacters}`);
const amount = z.number({ error: 'must be a number' });

/** docs/gateway-interface.md section 2.1. `online-balance-live-amount` is computed from the others, so it is omitted. */
const balance = z.strictObject({
  name: z.string().min(1).max(128),
  currency: matching(/^[A-Z]{3}$/, 'must be a three-letter code'),
  amount,
  'total-short-term-hold-amount': amount.default(0),
  'total-rolling-reserve-amount': amount.default(0),
  'amount-buffer-hold': amount.default(0),
  externalMerchantIdentifier: z.string().nullable().default(null),
});

/** Fields of a status response that the simulator sets. */
const simulatorFields = ['type', 'by-request-sn', 'merchant-order-id'];
const needsMessage = ['error', 'declined', 'filtered'];

/** Fields of the status response (docs/gateway-interface.md section 2.2) at one stage of an order. */
const stage = z
  .record(matching(/^[a-z][A-Za-z0-9_-]*$/, 'must be a field of the status response'), stringValue)
  .describe('"serial-number" is that of the request that led to this stage.')
  .refine(
    (fields) => simulatorFields.every((name) => !Object.hasOwn(fields, name)),
    `must omit ${simulatorFields.join(', ')}`,
  )
  .refine((fields) => Object.hasOwn(fields, 'status'), 'must have a status')
  .refine(
    (fields) =>
      !needsMessage.includes(fields['status'] ?? '') ||
      (Object.hasOwn(fields, 'error-message') && Object.hasOwn(fields, 'error-code')),
    'must have error-message and error-code, because its status is declined, error or filtered',
  );

const order = z.strictObject({
  login: identifier,
  endpoint: identifier,
  client_orderid: z.string().min(1).max(128),
  orderid: z.string({ error: 'must be a string: put it in quotes' }).regex(/^\d{1,18}$/, 'must be digits'),
  stages: z.array(stage).min(1),
});

/** What becomes of an order. The response that makes it is the same for all. */
const transferRule = z.strictObject({
  client_orderid: z.string().min(1).max(128),
  status: stringValue.min(1).optional().describe('In the end. If absent, the CVV2 decides.'),
  foundAfterSeconds: seconds.default(0).describe('Until then a status query does not find the order.'),
  processingSeconds: seconds.optional().describe('So long it is in progress.'),
  processingStatus: stringValue.min(1).default('processing').describe('So long its status.'),
});

const scenarioSchema = z.strictObject(
  {
    product: matching(/^[A-Za-z0-9_~-]{1,64}$/, 'must be one path segment').default('gw'),
    operations: operationOverrides.describe(
      "The operations section of the proxy's configuration: the simulator accepts what that section adds or overrides.",
    ),
    responses: z
      .record(operationName, z.record(z.string().min(1), stringValue))
      .default({})
      .describe('Fields of the response of each added operation.'),
    logins: z.record(
      identifier,
      z.strictObject({
        balances: z.array(balance).optional().describe('If absent, the balance feature is not enabled.'),
        keys: z
          .literal('unavailable', { error: 'must be unavailable, or absent' })
          .optional()
          .describe("The key source of the demo's proxy cannot read the keys of this login."),
      }),
    ),
    caller: z
      .strictObject({
        tokens: z
          .array(stringValue.regex(/^[\w.~+/-]+=*$/, 'must be a bearer token: A-Z a-z 0-9 . _ ~ + / -'))
          .min(1, 'must have a token, or be absent to accept any request')
          .optional()
          .describe('Bearer tokens, one of which a request needs.'),
        maxInFlight: z.int().min(1).max(1_000_000).optional().describe('Maximum concurrent requests.'),
      })
      .default({})
      .describe("The only caller of the demo's proxy."),
    endpoints: z.array(identifier).default([]),
    groups: z.record(identifier, z.array(identifier)).default({}).describe('Maps group ID to endpoints.'),
    orders: z.array(order).default([]),
    processingSeconds: seconds.default(1).describe('So long an order is in progress.'),
    transfers: z
      .array(transferRule)
      .default([])
      .describe('What becomes of an order, by client_orderid; of every other one the CVV2 decides.'),
    faults: z.array(faultRule).default([]).describe('The first match applies.'),
  },
  {
    error: ({ code }) =>
      code === 'invalid_type' ? 'must be a mapping that contains at least logins' : undefined,
  },
);

/** The logins, balances and orders of the simulated gateway. Contains no keys. */
export type Scenario = z.output<typeof scenarioSchema>;
export type Balance = z.output<typeof balance>;
/** A field without a value is not sent. */
export type Stage = Readonly<Partial<z.output<typeof stage>>>;

/**
 * The scenario of a YAML text, or all its problems. config/scenario.yaml explains the format.
 *
 * @param operations are served too; `operations` of the scenario overrides their fields
 */
export function parseScenario(text: string, operations: Scenario['operations'] = {}) {
  const schema = scenarioSchema.superRefine((scenario, context) =>
    checkScenario(scenario, reportTo(context)),
  );
  return parseText(text, withOperations(operations, schema));
}

/** Rules across fields: known names, distinct IDs, operations that do not contradict each other. */
function checkScenario(scenario: Scenario, report: Report): void {
  const { endpoints, faults, groups, logins, orders, responses } = scenario;
  const checkKnown = (name: string, known: readonly string[], section: string, path: Path) => {
    if (!known.includes(name)) report(path, `is not in ${section}: add it there, or correct it`);
  };
  for (const [group, members] of Object.entries(groups))
    for (const [index, name] of members.entries())
      checkKnown(name, endpoints, 'endpoints', ['groups', group, index]);
  for (const [index, { endpoint, login }] of orders.entries()) {
    checkKnown(endpoint, endpoints, 'endpoints', ['orders', index, 'endpoint']);
    checkKnown(login, Object.keys(logins), 'logins', ['orders', index, 'login']);
  }
  const orderIds = orders.map(({ orderid }, index) => ({ id: orderid, path: ['orders', index, 'orderid'] }));
  const serialNumbers = orders.flatMap(({ stages }, order) =>
    stages.map((stage, index) => ({
      id: stage['serial-number'],
      path: ['orders', order, 'stages', index, 'serial-number'],
    })),
  );
  for (const ids of [orderIds, serialNumbers])
    for (const [{ path }] of repeated<{ id: string | undefined; path: Path }>(ids, ({ id }) => id))
      report(path, 'is used before: every order and stage needs its own');

  checkOperations({ operations: scenario.operations, environments: {} }, builtInOperations, report);
  const operations = [...Object.keys(builtInOperations), ...Object.keys(scenario.operations)];
  for (const [index, { operation }] of faults.entries())
    checkOperation(operation, operations, ['faults', index, 'operation'], report);
  // Built-in operations respond from the rest of the scenario.
  const added = Object.keys(scenario.operations).filter((name) => !Object.hasOwn(builtInOperations, name));
  for (const name of Object.keys(responses))
    if (!added.includes(name))
      report(['responses', name], `is not an operation that this scenario adds${didYouMean(name, added)}`);
}

/** @param name absent for all operations */
export function checkOperation(
  name: string | undefined,
  known: readonly string[],
  path: Path,
  report: Report,
): void {
  if (name !== undefined && !known.includes(name))
    report(path, `is not an operation${didYouMean(name, known)}`);
}
