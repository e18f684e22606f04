/** Multiples of Grafana's units: the suffix after the number, and the factor, in ascending order. */
const units: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  reqps: { ' req/s': 1, 'K req/s': 1e3 },
  ops: { ' ops/s': 1, 'K ops/s': 1e3 },
  short: { '': 1, ' K': 1e3, ' Mil': 1e6 },
  none: { '': 1 },
  percentunit: { '%': 0.01 },
  s: { ' µs': 1e-6, ' ms': 1e-3, ' s': 1, ' min': 60, ' h': 3600, ' days': 86_400 },
  bytes: { ' B': 1, ' KiB': 2 ** 10, ' MiB': 2 ** 20, ' GiB': 2 ** 30 },
};

/**
 * The best multiple for numbers up to this one.
 *
 * @throws TypeError for an unknown unit
 */
export function multipleFor(unit: string, value: number): readonly [suffix: string, factor: number] {
  const multiples = Object.entries(units[unit] ?? {});
  const [smallest] = multiples;
  if (smallest === undefined) throw new TypeError(`unknown unit ${unit}`);
  if (value === 0) return multiples.find(([, factor]) => factor === 1) ?? smallest;
  return multiples.findLast(([, factor]) => Math.abs(value) >= factor) ?? smallest;
}

/** The number with its unit. @param digits maximum number of significant digits */
export function format(unit: string, value: number, digits = 6): string {
  const [suffix, factor] = multipleFor(unit, value);
  return `${Number((value / factor).toPrecision(digits))}${suffix}`;
}
