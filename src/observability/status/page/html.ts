export type Content = string | number | Html | undefined | readonly Content[];

const entities: ReadonlyMap<string, string> = new Map([
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
  ['"', '&quot;'],
  ["'", '&#39;'],
  ['`', '&#96;'],
]);

/** Markup that is sent as it is: made by {@link html}, or of a constant of this project, such as the style sheet. */
export class Html {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }
}

/** Markup with values between it. Every value is escaped unless it is markup itself; `undefined` is left out. */
export function html(parts: TemplateStringsArray, ...values: readonly Content[]): Html {
  return new Html(parts.map((part, index) => `${part}${render(values[index])}`).join(''));
}

function render(value: Content): string {
  if (value === undefined) return '';
  if (value instanceof Html) return value.toString();
  if (typeof value === 'object') return value.map(render).join('');
  return escapeHtml(String(value));
}

/**
 * Text for an element or a quoted attribute. Characters that a reader cannot see, or that reorder the text around
 * them (such as U+202E), become their code point in brackets.
 */
function escapeHtml(text: string): string {
  return text.replace(
    /[&<>"'`\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu,
    (character) => entities.get(character) ?? `[${codePoint(character)}]`,
  );
}

function codePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}
