import { z } from 'zod';
import { count, dictionary, matching, operationName } from './values.ts';

const path = matching(
  /^\/api(\/([A-Za-z0-9_~-][A-Za-z0-9._~-]*|\{(login|endpoint|endpointGroup)\}))+$/,
  'must look like /api/v4/status/{endpoint}; it may contain {login}, {endpoint} and {endpointGroup}',
).refine((value) => {
  const placeholders = value.match(/\{\w+\}/g) ?? [];
  return new Set(placeholders).size === placeholders.length;
}, 'must contain each of {login}, {endpoint} and {endpointGroup} at most once');

const parameter = z
  .strictObject({
    required: z
      .boolean()
      .describe('Reject forms without it; `false` takes back the rule of a built-in operation.'),
    maxLength: count.describe('Length in characters.'),
    minorUnitsOf: z
      .string()
      .min(1)
      .describe(
        'Parameter with the currency of this amount, which stands in minor units in a control: 10.42 EUR as 1042.',
      ),
  })
  .exactPartial();

/** An operation of the gateway. It is data: a new operation needs no code. */
export const operation = z.strictObject({
  path: path.describe('Path after /{product}; {login}, {endpoint} and {endpointGroup} match a segment each.'),
  signature: z
    .enum(['HMAC-SHA1', 'RSA-SHA256', 'SHA1-control'])
    .describe('SHA1-control is not OAuth: it adds the parameter `control`.'),
  control: z
    .array(z.string().min(1))
    .min(1)
    .describe(
      'What stands before the control key: parameters, required unless `parameters` says otherwise; `login`, which is added to the form; {login}, {endpoint}, {endpointGroup}.',
    )
    .optional(),
  loginFrom: z
    .enum(['path', 'body', 'header'])
    .describe('Where the login is; `body`: parameter `login`; `header`: Countersign-Login and `endpoints`.'),
  readOnly: z.boolean().describe('It changes nothing at the gateway, so it may be retried.'),
  retryOn403: z.boolean().describe('Retry with another key after a 401 or 403, also if not read-only.'),
  once: z
    .boolean()
    .describe(
      'With `payments.once`: an order ID is sent once. Only for an operation that makes an order. Default: only `transfer` and `pan-eligibility-send`.',
    ),
  parameters: dictionary(z.string().min(1), parameter).describe(
    'Rules of parameters, each of which may appear once.',
  ),
  orderId: z
    .string()
    .min(1)
    .optional()
    .describe("Parameter with the merchant's order ID. Default: `client_orderid` or `client-order-id`."),
  allowRepeatedParameters: z
    .boolean()
    .describe('Accept other parameters more than once. Default: all but `transfer`.'),
});

/** Exact: an omitted field is absent, so it cannot override a lower layer with `undefined`. */
export const operationOverride = operation.exactPartial();
export const operationOverrides = dictionary(operationName, operationOverride).prefault({});
