/** One element of a DER encoding (X.690 section 8.1). */
export interface DerElement {
  readonly tag: number;
  readonly content: Buffer;
  /** With its tag and length. */
  readonly bytes: Buffer;
}

export const derTags = { integer: 0x02, bitString: 0x03, sequence: 0x30 } as const;

/**
 * Elements one after the other.
 *
 * @throws RangeError if they are cut, have tags of several bytes, or an indefinite length, which DER does not have
 */
export function derElements(encoded: Buffer): DerElement[] {
  const elements: DerElement[] = [];
  for (let start = 0; start < encoded.length; ) {
    const tag = encoded.readUInt8(start);
    if ((tag & 0x1f) === 0x1f) throw new RangeError('a tag of several bytes');
    const first = encoded.readUInt8(start + 1);
    if (first === 0x80) throw new RangeError('an indefinite length');
    const lengthBytes = first < 0x80 ? 0 : first & 0x7f;
    const from = start + 2 + lengthBytes;
    const until = from + (lengthBytes === 0 ? first : encoded.readUIntBE(start + 2, lengthBytes));
    if (until > encoded.length) throw new RangeError('an element is cut');
    elements.push({ tag, content: encoded.subarray(from, until), bytes: encoded.subarray(start, until) });
    start = until;
  }
  return elements;
}

export function encodeDer(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const hex = length.toString(16);
  const long = Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex');
  const prefix = length < 0x80 ? [tag, length] : [tag, 0x80 | long.length, ...long];
  return Buffer.concat([Buffer.from(prefix), content]);
}

/** @param value not negative */
export function encodeDerInteger(value: bigint): Buffer {
  const hex = value.toString(16);
  const bytes = Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex');
  const signed = bytes.readUInt8(0) < 0x80 ? bytes : Buffer.concat([Buffer.from([0]), bytes]);
  return encodeDer(derTags.integer, signed);
}
