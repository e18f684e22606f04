import { randomBytes } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { parseTraceparent } from '../../../../src/proxy/inbound/trace-context.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const parent = 'b7ad6b7169203331';

describe('a traceparent', () => {
  it.each([
    ['sampled', `00-${traceId}-${parent}-01`, true],
    ['not sampled', `00-${traceId}-${parent}-00`, false],
    ['sampled, with the random flag of level 2', `00-${traceId}-${parent}-03`, true],
    ['not sampled, with another flag', `00-${traceId}-${parent}-02`, false],
    ['of a later version', `01-${traceId}-${parent}-01`, true],
    ['of a later version with further fields', `cc-${traceId}-${parent}-01-what-the-future-brings`, true],
    ['of a later version with a dash at its end', `fe-${traceId}-${parent}-00-`, false],
  ])('that is %s gives its trace id and whether it is sampled', (_name, header, sampled) => {
    expect(parseTraceparent(header)).toEqual({ traceId, spanId: parent, sampled });
  });

  it.each(['4d4111111111111111e7b6ad6b7169aa', 'b658a24e6e612b388363043397e05ae5'])(
    'with the random id %s, in which digits are by chance like those of a card, is kept',
    (id) => {
      expect(parseTraceparent(`00-${id}-${parent}-01`)).toMatchObject({ traceId: id });
    },
  );

  it('whose parent id holds a card number gives the trace id only', () => {
    const header = `00-${traceId}-4111111111111111-01`;
    expect(parseTraceparent(header)).toEqual({ traceId, sampled: true });
  });

  it.each([
    ['empty', ''],
    ['of version ff', `ff-${traceId}-${parent}-01`],
    ['of version 00 with further fields', `00-${traceId}-${parent}-01-more`],
    ['of version 00 with a dash at its end', `00-${traceId}-${parent}-01-`],
    ['of a later version without a dash after the flags', `cc-${traceId}-${parent}-01.more`],
    ['of a later version with three digits of flags', `cc-${traceId}-${parent}-011`],
    ['too short', `00-${traceId}-${parent}-0`],
    ['without a trace id', `00-${'0'.repeat(32)}-${parent}-01`],
    ['without a parent id', `00-${traceId}-${'0'.repeat(16)}-01`],
    ['of a card number that zeros fill up', `00-${'4111111111111111'.padStart(32, '0')}-${parent}-01`],
    ['of a card number with zeros after it', `00-${'4111111111111111'.padEnd(32, '0')}-${parent}-01`],
    [
      'of a card number among letters',
      `00-${'4111111111111111'.padStart(20, 'a').padEnd(32, 'b')}-${parent}-01`,
    ],
    [
      'of a card number after a digit',
      `00-${'74111111111111111'.padStart(20, 'a').padEnd(32, 'b')}-${parent}-01`,
    ],
    ['in capitals', `00-${traceId.toUpperCase()}-${parent}-01`],
    ['sent twice', `00-${traceId}-${parent}-01, 00-${traceId}-${parent}-01`],
  ])('that is %s is ignored', (_name, header) => {
    expect(parseTraceparent(header)).toBeUndefined();
  });

  it.each([
    ['15 digits (American Express)', '378282246310005'],
    ['14 digits (Diners Club)', '30569309025904'],
    ['16 digits (Mastercard, second range)', '2223003122003222'],
    ['16 digits (Discover)', '6011111111111117'],
    ['16 digits (JCB)', '3530111333300000'],
    ['16 digits (Mir)', '2200000000000004'],
    ['19 digits (Maestro)', '6304000000000000000'],
    ['13 digits (Visa, old)', '4222222222222'],
    ['15 digits (airlines)', '135410014004955'],
  ])('that holds a card number of %s is ignored, whatever is around it', (_name, number) => {
    for (const id of [
      number.padStart(32, '0'),
      number.padEnd(32, '0'),
      `f${number}`.padEnd(32, 'e'),
      `1${number}`.padStart(20, 'a').padEnd(32, 'b'),
    ]) {
      expect(parseTraceparent(`00-${id}-${parent}-01`)).toBeUndefined();
    }
  });

  it('of random IDs is kept', () => {
    const count = 50_000;
    let ignored = 0;
    let parentless = 0;
    for (let at = 0; at < count; at += 1) {
      const parsed = parseTraceparent(
        `00-${randomBytes(16).toString('hex')}-${randomBytes(8).toString('hex')}-01`,
      );
      if (parsed === undefined) ignored += 1;
      else if (parsed.spanId === undefined) parentless += 1;
    }
    expect(ignored).toBe(0);
    // One without a letter among its 16 digits, that is like a card number, too.
    expect(parentless / count).toBeLessThan(0.0005);
  });
});
