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
      .describe('Reject forms without it. `false` takes back what a built-in operation requires.'),
    maxLength: count.describe('Maximum length in characters (Unicode code points).'),
    minorUnitsOf: z
      .string()
      .min(1)
      .describe(
        'It is an amount, and this parameter names its currency: in a control it stands in minor units, 10.42 EUR as 1042.',
      ),
  })
  .exactPartial();

/** An operation of the gateway. It is data: a new operation needs no code. */
export const operation = z.strictObject({
  path: path.describe(
    'Path after /{product}; {login}, {endpoint} and {endpointGroup} match one segment each.',
  ),
  signature: z
    .enum(['HMAC-SHA1', 'RSA-SHA256', 'SHA1-control'])
    .describe(
      'Signature method that the gateway requires. SHA1-control is not OAuth: it adds the parameter `control`.',
    ),
  control: z
    .array(z.string().min(1))
    .min(1)
    .describe(
      'For SHA1-control: what is concatenated before the control key, in this order. Parameters of the form, which are required unless `parameters` says `required: false`; `login`, which is added to the form; {login}, {endpoint} and {endpointGroup} of the path.',
    )
    .optional(),
  loginFrom: z
    .enum(['path', 'body', 'header'])
    .describe(
      'Where the login comes from: the path, the body parameter "login", or the Countersign-Login header and the endpoints map.',
    ),
  readOnly: z.boolean().describe('The operation changes nothing at the gateway, so it may be retried.'),
  retryOn403: z
    .boolean()
    .describe('Retry with another key version after a 401 or 403 even if the operation is not read-only.'),
  once: z
    .boolean()
    .describe(
      'With `payments.once`: an order ID is sent once. For an operation that makes an order; one that names the order of another operation must not have it. Default: false, except for `transfer` and `pan-eligibility-send`.',
    ),
  parameters: dictionary(z.string().min(1), parameter).describe(
    'Form parameters to validate before signing, by name. Each may appear once. Rules of a built-in operation that are not named here stay.',
  ),
  orderId: z
    .string()
    .min(1)
    .optional()
    .describe(
      "Form parameter with the merchant's order ID, which is shown for payments of unknown outcome. Default: `client_orderid` or `client-order-id`.",
    ),
  allowRepeatedParameters: z
    .boolean()
    .describe(
      'Accept forms in which a parameter that `parameters` does not name appears more than once. Default: true, except for `transfer`.',
    ),
});

/** Exact: an omitted field is absent, so it cannot override a lower layer with `undefined`. */
export const operationOverride = operation.exactPartial();
export const operationOverrides = dictionary(operationName, operationOverride).prefault({});
