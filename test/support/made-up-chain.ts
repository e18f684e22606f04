import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { encodeDer } from './der.ts';

const sequence = (...parts: readonly Buffer[]): Buffer => encodeDer(0x30, ...parts);
const oid = (hex: string): Buffer => encodeDer(6, Buffer.from(hex, 'hex'));
const bits = (content: Buffer): Buffer => encodeDer(3, Buffer.from([0]), content);
const nothing = encodeDer(5);
const name = (text: string): Buffer =>
  sequence(encodeDer(0x31, sequence(oid('550403'), encodeDer(0x0c, Buffer.from(text)))));

/** An odd number with so many bytes, as a DER integer. */
const number = (bytes: number): Buffer =>
  encodeDer(2, Buffer.concat([Buffer.from([0x7f]), randomBytes(bytes - 2), Buffer.from([0xff])]));

const bytes = 384;
/** RSA of 3,072 bits, the most with which OpenSSL takes such an exponent: as long as the modulus. */
const costlyKey = (): Buffer =>
  sequence(
    sequence(oid('2a864886f70d010101'), nothing),
    bits(
      sequence(
        encodeDer(2, Buffer.from([0]), Buffer.alloc(1, 0xff), randomBytes(bytes - 2), Buffer.from([0xff])),
        number(bytes),
      ),
    ),
  );

function certificate(subject: string, issuer: string, publicKey: Buffer): string {
  const algorithm = sequence(oid('2a864886f70d01010b'), nothing);
  const time = (text: string): Buffer => encodeDer(0x17, Buffer.from(text));
  const tbs = sequence(
    encodeDer(0xa0, encodeDer(2, Buffer.from([2]))),
    number(8),
    algorithm,
    name(issuer),
    sequence(time('250101000000Z'), time('350101000000Z')),
    name(subject),
    publicKey,
  );
  const signature = Buffer.concat([Buffer.from([1]), randomBytes(bytes - 1)]);
  const base64 = sequence(tbs, algorithm, bits(signature)).toString('base64');
  return `-----BEGIN CERTIFICATE-----\n${base64.replaceAll(/.{1,64}/g, '$&\n')}-----END CERTIFICATE-----\n`;
}

/** A chain that costs 8 ms for each certificate to find out that its signatures are wrong. PEM, the leaf first. */
export function madeUpChain(length: number): { readonly cert: string; readonly key: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const leaf = certificate('0', '1', publicKey.export({ type: 'spki', format: 'der' }));
  const others = Array.from({ length: length - 1 }, (_, index) =>
    certificate(String(index + 1), String(index + 2), costlyKey()),
  );
  return {
    cert: [leaf, ...others].join(''),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
  };
}
