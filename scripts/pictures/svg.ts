type Attributes = Readonly<Record<string, string | number | undefined>>;

/** An element as text. Children are text of elements already: what people wrote goes through {@link text}. */
export function element(name: string, attributes: Attributes, children: readonly string[] = []): string {
  const written = Object.entries(attributes).map(([key, value]) =>
    value === undefined ? '' : ` ${key}="${typeof value === 'number' ? short(value) : escaped(value)}"`,
  );
  const open = `<${name}${written.join('')}`;
  return children.length === 0 ? `${open}/>` : `${open}>${children.join('')}</${name}>`;
}

/** A line of text; `x` and `y` are where its baseline begins, ends or has its middle, by `text-anchor`. */
export function text(content: string, attributes: Attributes): string {
  return element('text', attributes, [escaped(content)]);
}

/** A tenth of a pixel is as fine as an eye can see, and keeps the file small. */
export function short(value: number): string {
  return String(Math.round(value * 10) / 10);
}

export function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}

/** Pixels that a text takes at most, in the sans-serif fonts that there usually are. */
export function textWidth(content: string, size: number): number {
  let width = 0;
  for (const character of content) width += widthOf(character);
  return width * size;
}

/** The text, or its beginning and a dot-dot-dot where it is wider. */
export function fitted(content: string, size: number, width: number): string {
  if (textWidth(content, size) <= width) return content;
  let kept = content;
  while (kept !== '' && textWidth(`${kept}…`, size) > width) kept = kept.slice(0, -1);
  return `${kept}…`;
}

function widthOf(character: string): number {
  if (/[iljtfrI.,:;|'!()[\]/ -]/.test(character)) return 0.36;
  if (/[mwMW%@—…]/.test(character)) return 0.92;
  return /[A-Z]/.test(character) ? 0.7 : 0.58;
}
