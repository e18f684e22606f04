import { clockText, counted, relative } from '../format.ts';
import type { Finding } from '../schema.ts';
import type { Severity } from '../thresholds.ts';

export type Content = string | number | Html | undefined | readonly Content[];

const entities: ReadonlyMap<string, string> = new Map([
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
  ['"', '&quot;'],
  ["'", '&#39;'],
  ['`', '&#96;'],
]);

/** How serious something is. `ok` and `idle` are normal. */
export type Tone = Severity | 'ok' | 'idle';

interface Section {
  /** Also the fragment of the URL that leads to it. */
  readonly id: string;
  readonly title: string;
  /** What the numbers are about. */
  readonly hint?: Content;
}

/** A state in words and color. */
export function pill(tone: Tone, text: string): Html {
  return html`<span class="pill ${tone}">${text}</span>`;
}

export function section({ id, title, hint }: Section, content: Content): Html {
  return html`<section id="${id}" aria-labelledby="${id}-title">
<div class="head"><h2 id="${id}-title">${title}</h2>${hint === undefined ? undefined : html`<p>${hint}</p>`}</div>
${content}
</section>
`;
}

/** A section with rows of one kind. */
interface Listing<Row> extends Section {
  /** What a row is. */
  readonly noun: string;
  /** `number`: aligned as one. */
  readonly columns: readonly (readonly [heading: string, cell: (row: Row) => Content, align?: 'number'])[];
  /** How serious a row is. Absent: rows keep their order, and none is more serious than another. */
  readonly tone?: (row: Row) => Tone;
  /** Instead of a table without rows. */
  readonly empty?: string;
}

export function listingSection<Row>(rows: readonly Row[], listing: Listing<Row>): Html {
  const { empty } = listing;
  const isEmpty = rows.length === 0 && empty !== undefined;
  return section(listing, isEmpty ? html`<p class="empty">${empty}</p>` : table(listing, rows));
}

/** So many rows are in sight; the others are folded. */
const maxRows = 10;

/** The most serious first. */
const order: readonly Tone[] = ['bad', 'warn', 'info', 'ok', 'idle'];

function table<Row>(listing: Listing<Row>, rows: readonly Row[]): Content {
  const { id, noun, tone = () => 'ok' } = listing;
  const sorted = order.flatMap((severity) => rows.filter((row) => tone(row) === severity));
  const folded = sorted.slice(maxRows);
  return [
    rowsOf(listing, sorted.slice(0, maxRows), ['title']),
    folded.length === 0
      ? undefined
      : html`<details id="${id}-fold"><summary id="${id}-more">${counted(folded.length, `more ${noun}`)}</summary>${rowsOf(listing, folded, ['title', 'more'])}</details>`,
  ];
}

/**
 * On a narrow screen a row becomes a card. The roles say again what the elements mean: in some browsers
 * `display: block` removes it.
 */
function rowsOf<Row>({ id, columns }: Listing<Row>, rows: readonly Row[], titles: readonly string[]): Html {
  const labels = titles.map((title) => `${id}-${title}`).join(' ');
  const headings = columns.map(
    ([heading, , align]) => html`<th scope="col" role="columnheader" class="${align}">${heading}</th>`,
  );
  const cellsOf = (row: Row): Html[] =>
    columns.map(([heading, content, align], index) =>
      index === 0
        ? html`<th scope="row" role="rowheader">${content(row)}</th>`
        : html`<td role="cell" class="${align}" data-heading="${heading}"><div>${content(row)}</div></td>`,
    );
  return html`<div class="scroll" id="${id}-${titles.at(-1)}-rows" role="group" aria-labelledby="${labels}" tabindex="0">
<table role="table" aria-labelledby="${labels}" class="${id}">
<thead role="rowgroup"><tr role="row">${headings}</tr></thead>
<tbody role="rowgroup">
${rows.map((row) => html`<tr role="row">${cellsOf(row)}</tr>\n`)}</tbody>
</table></div>`;
}

/** What something is, and below it in small type what belongs to it. */
export function withDetail(main: Content, detail: Content): Html {
  return html`<span class="main">${main}</span> <span class="detail">${detail}</span>`;
}

/** A bar beside its number, which says the same to those who do not see it. @param share 0 to 1 */
export function bar(share: number, tone: Tone): Html {
  const width = Math.round(Math.min(1, Math.max(0, share)) * 100);
  return html`<svg class="bar ${tone}" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect width="100" height="6"/><rect width="${width}" height="6"/></svg>`;
}

export function facts(values: Readonly<Record<string, Content>>): Html {
  return html`<dl>${Object.entries(values).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** A value whose seriousness is said elsewhere in words, here by weight and color. */
export function toned(tone: Tone, text: string): Content {
  return tone === 'ok' || tone === 'info' ? text : html`<strong class="${tone}">${text}</strong>`;
}

export function clockTime(now: string, time: string): Html {
  return html`<time datetime="${time}">${clockText(now, time)}</time>`;
}

/** `3 min ago`, with the time itself for programs and on hover. */
export function relativeTime(now: string, time: string): Html {
  return html`<time datetime="${time}" title="${time}">${relative(now, time)}</time>`;
}

/** A text with names of the configuration and commands between backticks. */
export function inline(text: string): Content {
  return text
    .split(/(`[^`]+`)/)
    .map((part, index) => (index % 2 === 1 ? html`<code>${part.slice(1, -1)}</code>` : part));
}

/** Where there is no value. */
export function none(text: string): Html {
  return html`<span class="none">${text}</span>`;
}

/** A value, or that there is none. */
export function known<T>(value: T | null, absence: string, show: (value: T) => Content): Content {
  return value === null ? none(absence) : show(value);
}

/** The most serious of them. */
export function worst(tones: readonly Tone[]): Tone {
  return order.find((tone) => tones.includes(tone)) ?? 'ok';
}

export function severityOf(findings: readonly Finding[]): Tone {
  return worst(findings.map(({ severity }) => severity));
}

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
