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
  })
  .exactPartial();

/** An operation of the gateway. It is data: a new operation needs no code. */
export const operation = z.strictObject({
  path: path.describe(
    'Path after /{product}; {login}, {endpoint} and {endpointGroup} match one segment each.',
  ),
  signature: z.enum(['HMAC-SHA1', 'RSA-SHA256']).describe('Signature method that the gateway requires.'),
  loginFrom: z
    .enum(['path', 'body', 'header'])
    .describe(
      'Where the login comes from: the path, the body parameter "login", or the Countersign-Login header and the endpoints map.',
    ),
  readOnly: z.boolean().describe('The operation changes nothing at the gateway, so it may be retried.'),
  retryOn403: z
    .boolean()
    .describe('Retry with another key version after a 401 or 403 even if the operation is not read-only.'),
  parameters: dictionary(z.string().min(1), parameter).describe(
    'Form parameters to validate before signing, by name. Each may appear once. Rules of a built-in operation that are not named here stay.',
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
