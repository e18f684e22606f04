type Attributes = Readonly<Record<string, string | number | undefined>>;

/** An SVG element as text. Children are elements already; use {@link text} to escape plain text. */
export function element(name: string, attributes: Attributes, children: readonly string[] = []): string {
  const written = Object.entries(attributes).map(([key, value]) =>
    value === undefined ? '' : ` ${key}="${typeof value === 'number' ? rounded(value) : escaped(value)}"`,
  );
  const open = `<${name}${written.join('')}`;
  return children.length === 0 ? `${open}/>` : `${open}>${children.join('')}</${name}>`;
}

/** A line of text; `x` and `y` are the start, middle or end of its baseline, by `text-anchor`. */
export function text(content: string, attributes: Attributes): string {
  return element('text', attributes, [escaped(content)]);
}

/** Rounds to a tenth of a pixel, which keeps the file small. */
export function rounded(value: number): string {
  return String(Math.round(value * 10) / 10);
}

export function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}

/** An upper bound of the width of a text in pixels, for common sans-serif fonts. */
export function textWidth(content: string, size: number): number {
  let width = 0;
  for (const character of content) width += widthOf(character);
  return width * size;
}

/** The text, truncated with an ellipsis if it is too wide. */
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
