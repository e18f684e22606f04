import { z } from 'zod';
import { identifierPattern } from '../identifiers.ts';

const unreserved = /[A-Za-z0-9._~-]/;

/** RFC 3986 section 2.1: the encoding of each octet; unreserved characters (section 2.3) stay as they are. */
const octets: readonly string[] = Array.from({ length: 256 }, (_, octet) => {
  const character = String.fromCharCode(octet);
  return unreserved.test(character) ? character : `%${octet.toString(16).toUpperCase().padStart(2, '0')}`;
});

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

/** RFC 5849 section 3.6, octet by octet of the UTF-8 text. Independent of the proxy's encoder. */
export function percentEncode(text: string): string {
  let encoded = '';
  for (const octet of Buffer.from(text, 'utf8')) encoded += octets[octet] ?? '';
  return encoded;
}

/**
 * The strict reverse: accepts only unreserved characters and `%XX` in either case (RFC 3986 section 2.1). `undefined` for
 * anything else, such as `+`, and for bytes that are not UTF-8.
 */
export function percentDecode(encoded: string): string | undefined {
  if (!/^(?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})*$/.test(encoded)) return undefined;
  try {
    return decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}
