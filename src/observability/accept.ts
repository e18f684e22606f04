interface MediaRange {
  readonly type: string;
  readonly quality: number;
}

const textFormat = 'text/plain';
const openMetricsFormat = 'application/openmetrics-text';

/**
 * Whether a client prefers OpenMetrics to the text format (RFC 9110 section 12.5.1). Clients that only send
 * wildcards get the text format, which every client can read. Parameters other than `q` are ignored: Prometheus 3
 * adds `escaping`.
 */
export function prefersOpenMetrics(accept = '*/*'): boolean {
  const ranges = mediaRanges(accept);
  const isNamed = ranges.some(({ type }) => type === openMetricsFormat);
  const difference = qualityOf(openMetricsFormat, ranges) - qualityOf(textFormat, ranges);
  return difference > 0 || (difference === 0 && isNamed && qualityOf(openMetricsFormat, ranges) > 0);
}

/** The most specific range decides; of ranges that differ only in parameters, the best one. */
function qualityOf(type: string, ranges: readonly MediaRange[]): number {
  const wildcard = `${type.slice(0, type.indexOf('/'))}/*`;
  for (const candidate of [type, wildcard, '*/*']) {
    const matching = ranges.filter((range) => range.type === candidate);
    if (matching.length > 0) return Math.max(...matching.map(({ quality }) => quality));
  }
  return 0;
}

function mediaRanges(accept: string): MediaRange[] {
  return elementsOf(accept, ',').map((range) => {
    const [type = '', ...parameters] = elementsOf(range, ';');
    return { type: type.toLowerCase(), quality: weightOf(parameters) };
  });
}

/** A weight that is not one of RFC 9110 section 12.4.2 does not make a format acceptable. */
function weightOf(parameters: readonly string[]): number {
  const weight = parameters.find((parameter) => /^q=/i.test(parameter));
  if (weight === undefined) return 1;
  return /^q=(0(\.\d{0,3})?|1(\.0{0,3})?)$/i.test(weight) ? Number(weight.slice(2)) : 0;
}

/** Quoted strings may contain separators. A string that is not closed extends to the end. */
function elementsOf(list: string, separator: ',' | ';'): string[] {
  const element = separator === ',' ? /(?:[^",]|"(?:[^"\\]|\\.)*"?)+/g : /(?:[^";]|"(?:[^"\\]|\\.)*"?)+/g;
  return (list.match(element) ?? []).map((text) => text.trim());
}
