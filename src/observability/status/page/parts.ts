import type { Severity } from '../finding-codes.ts';
import { clockText, counted, relative, whole } from '../format.ts';
import type { Finding } from '../schema.ts';

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

/** `number`: aligned as one. */
type Column<Row> = readonly [heading: string, cell: (row: Row) => Content, align?: 'number'];

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
export interface Listing<Row> extends Section {
  /** What a row is. */
  readonly noun: string;
  /** What a row is known by from one update of the page to the next. */
  readonly key: (row: Row) => string;
  readonly columns: readonly Column<Row>[];
  /** How serious a row is. Absent: rows keep their order, and none is more serious than another. */
  readonly tone?: (row: Row) => Tone;
  /** Instead of a table without rows. */
  readonly empty?: string;
}

export function listingSection<Row>(listing: Listing<Row>, rows: readonly Row[]): Html {
  const { empty } = listing;
  const isEmpty = rows.length === 0 && empty !== undefined;
  return section(listing, isEmpty ? html`<p class="empty">${empty}</p>` : table(listing, rows));
}

/** So many rows are in sight at most. */
const maxRows = 10;

/** Of many rows only those that need attention, and not all of them if they are many too; the others are folded. */
function table<Row>(listing: Listing<Row>, rows: readonly Row[]): Content {
  const { id, tone } = listing;
  const sorted = tone === undefined ? rows : bySeverity(rows, tone);
  const attention = tone === undefined ? rows.length : rows.filter((row) => needsAttention(tone(row))).length;
  const shown = rows.length <= maxRows ? maxRows : Math.min(maxRows, attention);
  const folded = sorted.slice(shown);
  return [
    shown === 0 ? undefined : rowsOf(listing, `${id}-title`, sorted.slice(0, shown)),
    folded.length === 0
      ? undefined
      : html`<details><summary id="${id}-more">${summary(listing, folded)}</summary>${rowsOf(listing, `${id}-title ${id}-more`, folded)}</details>`,
  ];
}

function bySeverity<Row>(rows: readonly Row[], tone: (row: Row) => Tone): Row[] {
  const rank = (row: Row): number => {
    const index = order.indexOf(tone(row));
    return needsAttention(tone(row)) ? index : order.length;
  };
  return rows.toSorted((one, other) => rank(one) - rank(other));
}

/** Or is in progress, such as a rotation. */
function needsAttention(tone: Tone): boolean {
  return tone !== 'ok' && tone !== 'idle';
}

function summary<Row>({ noun, tone }: Listing<Row>, rows: readonly Row[]): Content {
  if (tone === undefined) return `${whole(rows.length)} more ${noun}s`;
  const inProgress = rows.filter((row) => tone(row) === 'info').length;
  const problems = rows.filter((row) => needsAttention(tone(row))).length - inProgress;
  const details = [
    ...(problems > 0 ? [`${whole(problems)} with a problem`] : []),
    ...(inProgress > 0 ? [`${whole(inProgress)} in progress`] : []),
  ];
  return details.length === 0
    ? `${counted(rows.length, noun)} without a problem`
    : `${whole(rows.length)} more ${noun}s, ${details.join(', ')}`;
}

/**
 * On a narrow screen a row becomes a card. The roles say again what the elements mean: in some browsers
 * `display: block` removes it.
 */
function rowsOf<Row>({ id, key, columns }: Listing<Row>, labels: string, rows: readonly Row[]): Html {
  const headings = columns.map(
    ([heading, , align]) => html`<th scope="col" role="columnheader" class="${align}">${heading}</th>`,
  );
  return html`<div class="scroll" role="group" aria-labelledby="${labels}" tabindex="0">
<table role="table" aria-labelledby="${labels}" class="${id}">
<thead role="rowgroup"><tr role="row">${headings}</tr></thead>
<tbody role="rowgroup">
${rows.map((row) => html`<tr role="row" data-key="${key(row)}">${columns.map((column, index) => cell(column, row, index === 0))}</tr>\n`)}</tbody>
</table></div>`;
}

function cell<Row>([heading, content, align]: Column<Row>, row: Row, isFirst: boolean): Html {
  return isFirst
    ? html`<th scope="row" role="rowheader">${content(row)}</th>`
    : html`<td role="cell" class="${align}" data-heading="${heading}"><div>${content(row)}</div></td>`;
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

export function facts(pairs: readonly (readonly [name: string, value: Content])[]): Html {
  return html`<dl>${pairs.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
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

const order: readonly Tone[] = ['bad', 'warn', 'info', 'ok', 'idle'];

/** The most serious of them. */
export function worst(tones: readonly Tone[]): Tone {
  return order.find((tone) => tones.includes(tone)) ?? 'ok';
}

export function severityOf(findings: readonly Finding[]): Tone {
  return worst(findings.map(({ severity }) => severity));
}

/** Markup that is sent as it is. Only {@link html} and {@link markup} make it. */
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

/** Only for constants of this project, such as the style sheet. */
export function markup(constant: string): Html {
  return new Html(constant);
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
