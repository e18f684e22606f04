import { configSchema } from '../../src/config/schema.ts';
import { createRoutes } from '../../src/gateway/router.ts';
import { createMetrics, type MetricFactory } from '../../src/observability/metric-definitions.ts';
import { initializeSeries } from '../../src/observability/prometheus.ts';
import { cell, code, table } from './markdown.ts';

interface Metric {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  /** Values that a label has from the start, by its name. */
  readonly values: ReadonlyMap<string, Set<string>>;
}

/** Labels whose values come from the configuration or the gateway. */
const openLabels: ReadonlySet<string> = new Set(['environment', 'operation', 'caller', 'status']);

/** Every metric of Countersign's own. */
export function metricTable(): string {
  const metrics: Metric[] = [];
  const config = configSchema.parse({
    environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'gw' } },
    callers: [{ name: 'billing', credentials: [{ anonymous: true }], allow: [] }],
    keys: {
      source: 'vault',
      vault: {
        address: 'https://vault.example',
        auth: { method: 'token', tokenFile: 'token' },
        transit: { mounts: { sandbox: 'transit' } },
      },
    },
  });
  initializeSeries(createMetrics(factoryInto(metrics)), createRoutes(config));
  const rows = metrics.map((metric) => [
    code(metric.name),
    metric.labels.map((label) => describeLabel(metric, label)).join(', '),
    cell(metric.help),
  ]);
  return table(['metric', 'labels', 'meaning'], rows);
}

function describeLabel({ values }: Metric, label: string): string {
  const known = openLabels.has(label) ? [] : [...(values.get(label) ?? [])];
  return known.length === 0 ? code(label) : `${code(label)} (${known.map(code).join(', ')})`;
}

/** Makes metrics that only record what they are. */
function factoryInto(metrics: Metric[]): MetricFactory {
  const define = <Name extends string>(name: string, help: string, labels: readonly Name[] = []) => {
    const values = new Map(labels.map((label): [Name, Set<string>] => [label, new Set()]));
    metrics.push({ name: `countersign_${name}`, help, labels, values });
    const record = (given: Readonly<Record<Name, string>>): void => {
      for (const label of labels) values.get(label)?.add(given[label]);
    };
    return {
      inc: record,
      dec: record,
      set: record,
      remove: () => {},
      reset: () => {},
      observe: () => {},
      zero: record,
    };
  };
  return { counter: define, gauge: define, histogram: define };
}
