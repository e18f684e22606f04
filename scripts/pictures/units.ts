/** A multiple of a unit: its factor, and the suffix after the number. */
type Multiple = readonly [factor: number, suffix: string];

/** Multiples of Grafana's units, in ascending order. */
const units: Readonly<Record<string, readonly Multiple[]>> = {
  reqps: [
    [1, ' req/s'],
    [1e3, 'K req/s'],
  ],
  ops: [
    [1, ' ops/s'],
    [1e3, 'K ops/s'],
  ],
  short: [
    [1, ''],
    [1e3, ' K'],
    [1e6, ' Mil'],
  ],
  none: [[1, '']],
  percentunit: [[0.01, '%']],
  s: [
    [1e-6, ' µs'],
    [1e-3, ' ms'],
    [1, ' s'],
    [60, ' min'],
    [3600, ' h'],
    [86_400, ' days'],
  ],
  bytes: [
    [1, ' B'],
    [2 ** 10, ' KiB'],
    [2 ** 20, ' MiB'],
    [2 ** 30, ' GiB'],
  ],
};

/**
 * The best multiple for numbers up to this one.
 *
 * @throws TypeError for an unknown unit
 */
export function multipleFor(unit: string, value: number): Multiple {
  const multiples = units[unit];
  const [smallest] = multiples ?? [];
  if (multiples === undefined || smallest === undefined) throw new TypeError(`unknown unit ${unit}`);
  if (value === 0) return multiples.find(([factor]) => factor === 1) ?? smallest;
  return multiples.findLast(([factor]) => Math.abs(value) >= factor) ?? smallest;
}

/** The number with its unit. @param digits maximum number of significant digits */
export function format(unit: string, value: number, digits = 6): string {
  const [factor, suffix] = multipleFor(unit, value);
  return `${Number((value / factor).toPrecision(digits))}${suffix}`;
}
