import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import {
  redactBaseString,
  redactParameter,
  redactParameters,
  redactText,
} from '../../src/redact-card-data.ts';

const card = '4111111111111111';
const codeOf = (text: string): string => text.replaceAll(/./g, (c) => `%${c.charCodeAt(0).toString(16)}`);

describe('redacted parameters', () => {
  it('contain no card data, and everything else unchanged', () => {
    expect(redactParameters(`amount=10.42&credit_card_number=${card}&cvv2=123&order_desc=a%20b%2A`)).toBe(
      'amount=10.42&credit_card_number=xxxxxxxxxxxxxxxx&cvv2=xxx&order_desc=a%20b%2A',
    );
  });

  it('contain no card number under any name, within a text, or with separators', () => {
    const separated = ['/', '_', ',', '%20%20', '%C2%A0'].map((mark) =>
      card.replaceAll(/(?<=\d{4})(?=(\d{4})+$)/g, mark),
    );
    for (const value of [
      `card%20${card}`,
      '4111.1111.1111.1111',
      '4111%201111%201111%201111',
      `${card}1`,
      ...separated,
    ]) {
      expect(redactParameters(`order_desc=${value}`)).toMatch(/^order_desc=[x%]+$/);
    }
    expect(redactParameters(`${card}=`)).toBe('xxxxxxxxxxxxxxxx=');
  });

  it.each([
    ['13 digits (Visa, old)', '4222222222222'],
    ['14 digits (Diners Club)', '30569309025904'],
    ['15 digits (American Express)', '378282246310005'],
    ['19 digits (Maestro)', '6304000000000000000'],
  ])('contain no card number of any length: %s', (_, number) => {
    expect(redactParameters(`order_desc=${number}`)).toBe(`order_desc=${'x'.repeat(number.length)}`);
  });

  it('include the parameters of OAuth, although a nonce may have as many digits', () => {
    expect(redactParameters('oauth_nonce=12345678901234567890')).toBe('oauth_nonce=12345678901234567890');
  });
});

describe('a redacted parameter or text', () => {
  it('that is decoded contains no card data', () => {
    expect(redactParameter('cvv2', '123')).toEqual(['cvv2', 'xxx']);
    expect(redactParameter('order_desc', '4111 1111 1111 1111')).toEqual([
      'order_desc',
      'xxxx xxxx xxxx xxxx',
    ]);
    expect(redactParameter(card, 'a b')).toEqual(['xxxxxxxxxxxxxxxx', 'a b']);
    expect(redactText(`/transfer/${card}`)).toBe('xxxxxxxxxxxxxxxxxxxxxxxxxx');
    expect(redactText('/transfer/1234')).toBe('/transfer/1234');
    expect(redactText(`%2%35${'25'.repeat(9)}34${card.slice(1)}`)).not.toContain('111');
  });
});

describe('a redacted base string', () => {
  const head = 'POST&https%3A%2F%2Fgateway.test%2Fgw&';

  it('contains everything except card data', () => {
    expect(redactBaseString(`${head}amount%3D1%26cvv2%3D123%26order_desc%3Da%2520b`)).toBe(
      `${head}amount%3D1%26cvv2%3Dxxx%26order_desc%3Da%2520b`,
    );
  });

  it.each([
    ['whose escapes are in lower case', `${head}cvv2%3d987%26credit_card_number%3d${card}`],
    ['whose parameters are not encoded', `${head}cvv2=987`],
    [
      'whose digits are encoded',
      `${head}credit_card_number%3D${codeOf(codeOf(card))}%26cvv2%3D${codeOf('987')}`,
    ],
    ['whose names are encoded too often', `${head}credit%25255Fcard%25255Fnumber%3D${card}`],
    ['with a card number in a description', `${head}order_desc%3Dcard%2520${card}`],
    ['with a card number in pieces', `${head}x%3D4111%252B1111%252B1111%252B1111`],
    ['with a card number in the URL', `POST&https%3A%2F%2Fgateway.test%2F${card}&amount%3D1%26cvv2%3D987`],
    ['that is no base string at all', `my card is ${card}`],
  ])('from another program, %s, contains no card data', (_what, text) => {
    const masked = redactBaseString(text);
    expect(masked).toHaveLength(text.length);
    expect(masked).not.toMatch(/987|4111|%34%31|%2534/);
  });

  it('keeps its length and never contains a card number, whatever surrounds it', () => {
    const part = fc.string({
      unit: fc.constantFrom('%3D', '%26', '%3d', '&', '=', '%25', '%20', 'a', 'cvv2', '5'),
    });
    fc.assert(
      fc.property(part, part, (before, after) => {
        const text = `${before}x%3D${card}${after}`;
        expect(redactBaseString(text)).toHaveLength(text.length);
        expect(redactBaseString(head + text)).not.toContain(card);
      }),
      { seed: 5849, numRuns: 2000 },
    );
  });
});
