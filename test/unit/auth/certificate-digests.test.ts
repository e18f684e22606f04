import { generateKeyPairSync, getCurves } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { curveOrders } from '../../../src/auth/client-certificate.ts';
import { derElements, encodeDer, encodeDerInteger } from '../../../src/util/der.ts';

/** ECParameters of SEC 1 section C.2: version, field, curve, base point, order, cofactor. */
function orderOf(namedCurve: string): bigint {
  const { publicKey } = generateKeyPairSync('ec', {
    namedCurve,
    paramEncoding: 'explicit',
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'der' },
  });
  const within = (bytes: Buffer | undefined, index: number): Buffer =>
    derElements(bytes ?? Buffer.alloc(0))[index]?.content ?? Buffer.alloc(0);
  const parameters = within(within(within(publicKey, 0), 0), 1);
  return BigInt(`0x${within(parameters, 4).toString('hex')}`);
}

describe('the other form of an ECDSA signature', () => {
  const strong = getCurves().filter(
    (name) => /^(?:prime|secp|brainpoolP)\d+/.test(name) && orderOf(name) > 2n ** 223n,
  );

  it.each(strong.filter((name) => !/^(?:prime239|secp224k)/.test(name)))(
    'is known for the curve %s: OpenSSL has this order',
    (name) => {
      expect(curveOrders).toContain(orderOf(name));
    },
  );
});

describe('DER', () => {
  it.each([0, 1, 127, 128, 255, 256, 65_535, 70_000])('has elements of %i bytes', (length) => {
    const content = Buffer.alloc(length, 7);
    const bytes = encodeDer(4, content);
    const elements = derElements(Buffer.concat([bytes, bytes]));
    const inHex = (one: Buffer): string => one.toString('hex');
    expect(elements.map((one) => [one.tag, inHex(one.content), inHex(one.bytes)])).toEqual([
      [4, inHex(content), inHex(bytes)],
      [4, inHex(content), inHex(bytes)],
    ]);
    expect(() => derElements(bytes.subarray(0, -1))).toThrow();
  });

  it.each([
    [0n, '020100'],
    [127n, '02017f'],
    [128n, '02020080'],
    [256n, '02020100'],
    [0xff00n, '020300ff00'],
  ])('has the integer %i in its shortest form', (value, hex) => {
    expect(encodeDerInteger(value).toString('hex')).toBe(hex);
  });

  it.each(['30', '30800000', '308400000001', '3f8101', '02050101'])('does not have %s', (hex) => {
    expect(() => derElements(Buffer.from(hex, 'hex'))).toThrow();
  });
});
