import { describe, expect, it } from '@jest/globals';
import { compareBaseStrings } from '../../../../src/cli/explain/compare.ts';

const url = 'https%3A%2F%2Fgateway.test%2Fgw%2Fapi';
const ours = `POST&${url}&amount%3D10.42%26order_desc%3Da%2520b%26oauth_timestamp%3D1700000000`;
const compared = (theirs: string): string => compareBaseStrings(ours, theirs).lines.join('\n');

describe('two base strings', () => {
  it('that are identical are reported as such', () => {
    expect(compareBaseStrings(ours, ours)).toEqual({
      equal: true,
      lines: ['The base strings are identical.'],
    });
  });

  it('differ at the first different byte, which is marked', () => {
    const { equal, lines } = compareBaseStrings(ours, ours.replace('10.42', '10.43'));
    const at = ours.indexOf('10.42') + 4;
    expect(equal).toBe(false);
    expect(lines[0]).toBe(
      `The first difference is at byte ${at} (counted from 0), in parameter 1 in sorted order, "amount":`,
    );
    const column = lines[3]?.indexOf('^') ?? -1;
    expect([lines[1]?.[column], lines[2]?.[column]]).toEqual(['2', '3']);
  });

  it.each([
    ['in the method', ours.replace('POST', 'GET')],
    ['in the URL', ours.replace('gateway', 'gatevay')],
    ['in parameter 2 in sorted order, "order_desc"', ours.replace('a%2520b', 'a%2520c')],
    ['in parameter 3 in sorted order, "oauth_timestamp"', ours.slice(0, -1)],
  ])('differ %s', (place, theirs) => {
    expect(compared(theirs)).toContain(place);
  });

  it('differ at the first byte, below which the mark is', () => {
    const [, first, , mark] = compareBaseStrings(ours, ours.replace('POST', 'GET')).lines;
    expect([first?.indexOf('P'), mark?.indexOf('^')]).toEqual([12, 12]);
  });

  it.each([
    ['differ only in case', ours.replace('%2520', '%2520').replaceAll('%3D', '%3d')],
    ['default port', ours.replace('gateway.test%2F', 'gateway.test%3A80%2F')],
    ['default port', ours.replace('gateway.test%2F', 'gateway.test%3A443%2F')],
    ['Encode spaces as %20', ours.replace('a%2520b', 'a%2Bb')],
    ['milliseconds', `${ours}000`],
    ['oauth_signature', `${ours}%26oauth_signature%3Dx`],
    ['base string is longer', `${ours}%26x%3D1`],
    ['is reserved', ours.replace('a%2520b', '*%2520b')],
  ])('are explained by a hint: %s', (hint, theirs) => {
    expect(compared(theirs)).toMatch(new RegExp(`^Hint: .*${hint.replace('+', '\\+')}`, 'm'));
  });

  it('have no hint about spaces where there is none', () => {
    expect(compared(ours.replace('10.42', '%2B.42'))).not.toContain('Hint: ');
  });

  it('show no card data around the difference', () => {
    const withCard = (amount: string): string =>
      `POST&${url}&amount%3D${amount}%26credit_card_number%3D4111111111111111%26cvv2%3D987`;
    const text = compareBaseStrings(withCard('1'), withCard('2')).lines.join('\n');
    const other = compareBaseStrings(withCard('1'), withCard('2').replaceAll('%3D', '%3d')).lines.join('\n');
    expect(`${text}${other}`).not.toMatch(/4111|987/);
  });
});
