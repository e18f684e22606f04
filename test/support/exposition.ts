import { createMetrics } from '../../src/observability/metric-definitions.ts';

/** The samples of a metrics page in the text format: series -> value. */
export function samples(page: string): Map<string, number> {
  const lines = page.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(' ');
      return [line.slice(0, at), Number(line.slice(at + 1))];
    }),
  );
}

/** The labels of each Countersign metric, by its full name. */
export function metricLabels(): Map<string, readonly string[]> {
  const found = new Map<string, readonly string[]>();
  const register = (name: string, names: readonly string[]) => {
    found.set(`countersign_${name}`, names);
    return { inc() {}, dec() {}, set() {}, remove() {}, reset() {}, observe() {}, zero() {} };
  };
  createMetrics({
    counter: (name, _help, names = []) => register(name, names),
    gauge: (name, _help, names = []) => register(name, names),
    histogram: (name, _help, names) => {
      for (const part of ['bucket', 'count', 'sum']) register(`${name}_${part}`, [...names, 'le']);
      return register(name, [...names, 'le']);
    },
  });
  return found;
}
