import { z } from 'zod';
import { count, dictionary, operationName } from './values.ts';

const path = z
  .string()
  .regex(
    /^\/api(\/([A-Za-z0-9_~-][A-Za-z0-9._~-]*|\{(login|endpoint|endpointGroup)\}))+$/,
    'must look like /api/v4/status/{endpoint}; it may hold {login}, {endpoint} and {endpointGroup}',
  )
  .refine((value) => {
    const placeholders = value.match(/\{\w+\}/g) ?? [];
    return new Set(placeholders).size === placeholders.length;
  }, 'must hold each of {login}, {endpoint} and {endpointGroup} at most once');

const parameter = z.strictObject({
  required: z.boolean().default(false).describe('Whether a form without it is refused.'),
  maxLength: count.optional().describe('Characters (Unicode code points) at most.'),
});

/** One operation of the gateway: data, so that a new one needs no code. */
export const operation = z.strictObject({
  path: path.describe(
    'Path after /{product}; {login}, {endpoint} and {endpointGroup} stand for one segment.',
  ),
  signature: z.enum(['HMAC-SHA1', 'RSA-SHA256']).describe('How the gateway wants it signed.'),
  loginFrom: z
    .enum(['path', 'body', 'header'])
    .describe(
      'Where the login stands: in the path, in the body parameter "login", or in the header Countersign-Login and the endpoints map.',
    ),
  readOnly: z.boolean().describe('Whether it is a read, which is safe to send again.'),
  retryOn403: z
    .boolean()
    .describe('Whether a 403 is answered by signing again with another key version, though not readOnly.'),
  parameters: dictionary(z.string().min(1), parameter).describe(
    'Form parameters that are checked before signing, by name.',
  ),
});

/** Exact: a field left out is absent, so it cannot hide the field below it as `undefined`. */
export const operationOverride = operation.exactPartial();
export const operationOverrides = dictionary(operationName, operationOverride).prefault({});
