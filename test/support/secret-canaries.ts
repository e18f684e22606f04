/** Texts that must not appear anywhere, by name. Too long to appear by chance. */
export type Marks = Readonly<Record<string, string | Buffer>>;

/** The marks that appear in the text, plain or encoded, as `name (encoding)`. */
export function marksIn(text: string, marks: Marks): string[] {
  const lower = text.toLowerCase();
  return Object.entries(marks).flatMap(([name, mark]) => {
    const bytes = Buffer.from(mark);
    if (bytes.length < 8) throw new TypeError(`the mark ${name} is too short`);
    return disguises(bytes)
      .filter(({ look }) => look(text, lower))
      .map(({ disguise }) => `${name} (${disguise})`);
  });
}

function disguises(mark: Buffer) {
  const plain = mark.toString('utf8');
  const inText = (needle: string) => (text: string) => text.includes(needle);
  const inAnyCase = (needle: string) => (_text: string, lower: string) =>
    lower.includes(needle.toLowerCase());
  const base64 = [0, 1, 2].map((offset) => base64Within(mark, offset));
  return [
    { disguise: 'plain', look: inAnyCase(plain) },
    { disguise: 'JSON', look: inText(JSON.stringify(plain).slice(1, -1)) },
    { disguise: 'hex', look: inAnyCase(mark.toString('hex')) },
    { disguise: 'percent-encoded', look: inAnyCase(encodeURIComponent(plain)) },
    { disguise: 'percent-encoded twice', look: inAnyCase(encodeURIComponent(encodeURIComponent(plain))) },
    { disguise: 'bytes in percent', look: inAnyCase(mark.toString('hex').replace(/../g, '%$&')) },
    { disguise: 'base64', look: (text: string) => base64.some((part) => text.includes(part)) },
    {
      disguise: 'base64url',
      look: (text: string) =>
        base64.some((part) => text.includes(part.replaceAll('+', '-').replaceAll('/', '_'))),
    },
  ];
}

/** The part of the mark's base64 that is the same in every longer text where it begins `offset` bytes into a group. */
function base64Within(mark: Buffer, offset: number): string {
  const encoded = Buffer.concat([Buffer.alloc(offset), mark])
    .toString('base64')
    .replace(/=+$/, '');
  const wholeGroups = Math.floor((offset + mark.length) / 3) * 4;
  return encoded.slice(offset === 0 ? 0 : 4, wholeGroups);
}
