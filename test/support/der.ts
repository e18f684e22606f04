/** One element of a DER encoding (X.690 section 8.1). */
export function encodeDer(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const hex = length.toString(16);
  const long = Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex');
  const prefix = length < 0x80 ? [tag, length] : [tag, 0x80 | long.length, ...long];
  return Buffer.concat([Buffer.from(prefix), content]);
}
