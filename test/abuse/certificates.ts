import { generateKeyPairSync } from 'node:crypto';
import type { Random } from '../support/random.ts';

/** ASN.1 in DER (X.690): a tag, the length, and the content. */
function der(tag: number, ...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  const { length } = content;
  const long = length < 128 ? [] : length < 256 ? [0x81] : [0x82, length >> 8];
  return Buffer.concat([Buffer.from([tag, ...long, length & 0xff]), content]);
}

const sequence = (...parts: readonly Buffer[]): Buffer => der(0x30, ...parts);
const integer = (bytes: Buffer): Buffer => der(2, ...(bytes.readUInt8() > 127 ? [Buffer.of(0)] : []), bytes);
const oid = (hex: string): Buffer => der(6, Buffer.from(hex, 'hex'));
const bits = (content: Buffer): Buffer => der(3, Buffer.of(0), content);
const nameOf = (text: string): Buffer =>
  sequence(der(0x31, sequence(oid('550403'), der(0x0c, Buffer.from(text)))));
const utcTime = (text: string): Buffer => der(0x17, Buffer.from(text));
const pem = (bytes: Buffer): string =>
  `-----BEGIN CERTIFICATE-----\n${bytes.toString('base64').replaceAll(/.{1,64}/g, '$&\n')}-----END CERTIFICATE-----\n`;

/** An odd number of so many bytes. */
export function oddNumber(random: Random, bytes: number, first: number): Buffer {
  const number = Buffer.from(Array.from({ length: bytes }, () => random.int(0, 255)));
  number.writeUInt8(first);
  number.writeUInt8(number.readUInt8(bytes - 1) | 1, bytes - 1);
  return number;
}

function rsaKey(random: Random, bytes: number, exponentBytes: number): Buffer {
  const numbers = [oddNumber(random, bytes, 0xff), oddNumber(random, exponentBytes, 0x7f)].map(integer);
  return sequence(sequence(oid('2a864886f70d010101'), der(5)), bits(sequence(...numbers)));
}

/** With a signature of random bytes: to check it is to raise it to the issuer's exponent. */
function certificate(random: Random, subject: string, issuer: string, key: Buffer, bytes: number): Buffer {
  const algorithm = sequence(oid('2a864886f70d01010b'), der(5));
  const signed = sequence(
    der(0xa0, integer(Buffer.of(2))),
    integer(Buffer.of(random.int(1, 127))),
    algorithm,
    nameOf(issuer),
    sequence(utcTime('250101000000Z'), utcTime('350101000000Z')),
    nameOf(subject),
    key,
  );
  return sequence(signed, algorithm, bits(oddNumber(random, bytes, 1)));
}

/**
 * A client's certificate with the chain above it, all made up. OpenSSL accepts exponents as long as the modulus up to 3072
 * bits (`OPENSSL_RSA_SMALL_MODULUS_BITS`).
 */
export function madeUpChain(
  random: Random,
  { length, modulusBytes, exponentBytes }: { length: number; modulusBytes: number; exponentBytes: number },
): { cert: string; key: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const leaf = publicKey.export({ type: 'spki', format: 'der' });
  const chain = Array.from({ length }, (_, index) => {
    const key = index === 0 ? leaf : rsaKey(random, modulusBytes, exponentBytes);
    return pem(certificate(random, `c${index}`, `c${index + 1}`, key, modulusBytes));
  });
  return { cert: chain.join(''), key: privateKey.export({ type: 'pkcs8', format: 'pem' }) };
}
