import { z } from 'zod';
import { identifierPattern } from '../identifiers.ts';

/** What may go wrong. `beforeEffect` fits those whose response does not depend on the effect. */
const beforeEffectNames = [
  'status-403',
  'status-429',
  'status-500',
  'status-502',
  'status-503',
  'reset',
  'garbage',
] as const;
const faultNames = [...beforeEffectNames, 'drip', 'cut'] as const;
const fitBeforeEffect: readonly unknown[] = beforeEffectNames;

/** A fault of the gateway or the network, and the requests that it applies to: in a scenario, or added while running. */
export const faultRule = z
  .strictObject({
    operation: z.string().optional().describe('Only requests of this operation.'),
    login: z
      .string()
      .regex(identifierPattern, 'must be a login')
      .optional()
      .describe('Only requests of this login.'),
    client_orderid: z.string().optional().describe('Only requests for this order.'),
    times: z
      .int()
      .min(1)
      .max(1_000_000)
      .optional()
      .describe('How many requests it applies to; all of them if absent.'),
    delaySeconds: z
      .number({ error: 'must be a number of seconds' })
      .min(0)
      .max(86_400)
      .default(0)
      .describe('Delay of the response, after the effect.'),
    fault: z
      .enum(faultNames)
      .optional()
      .describe(
        '`status-403` (always before the effect), `status-429`, `status-500`, `status-502`, `status-503`, `reset` (no response), `garbage` (not HTTP), `drip` (one byte at a time) or `cut` (the connection ends in the body).',
      ),
    beforeEffect: z
      .boolean()
      .default(false)
      .describe('The request takes no effect: no transfer is made. With a status, `reset` or `garbage`.'),
    cutAfterBytes: z
      .int()
      .min(0)
      .max(1_048_576)
      .optional()
      .describe('With `cut`: how many bytes of the body are sent.'),
  })
  .refine(({ fault, delaySeconds }) => fault !== undefined || delaySeconds > 0, {
    error: 'has no effect: add fault or delaySeconds',
  })
  .refine(({ fault, beforeEffect }) => !beforeEffect || fitBeforeEffect.includes(fault), {
    path: ['beforeEffect'],
    error: 'requires fault to be a status, reset or garbage',
  })
  .refine(({ fault, cutAfterBytes }) => (fault === 'cut') === (cutAfterBytes !== undefined), {
    path: ['cutAfterBytes'],
    error: 'belongs to fault: cut, so set both or neither',
  });

export type FaultRule = z.output<typeof faultRule>;
export type FaultName = (typeof faultNames)[number];
